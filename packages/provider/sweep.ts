import type { SweepResult } from "@concierge/core";

const sweepGaveUp = 3;
const sweepSuperseded = 4;

/** What the script's exit codes say. */
export const sweepResults: ReadonlyMap<number, SweepResult> = new Map([
  [0, "clean"],
  [sweepGaveUp, "alive"],
  [sweepSuperseded, "superseded"],
]);

/**
 * Runs inside the sandbox, as `sh -c <script> sh <runDir> [even-if-superseded]`. First it bars the launch, by making the file that a
 * runner must be the first to make; if the runner was first, it kills whatever began with it or after, by start time
 * and whoever's it is, until two looks in a row find nothing. A process can leave its group, its terminal and its
 * environment behind, but not the time it began. Only what the shell has built in is used: it is quick, and starts
 * nothing that it would have to overlook.
 *
 * Exits with 0 when nothing is left, with `sweepGaveUp` when it gives up, with `sweepSuperseded` when another turn has
 * begun to move in. Two sweeps at once may kill each other: then it is none of these.
 */
export const sweepScript = `
alive=${sweepGaveUp}
dir=$1
even_if_superseded=$2

# Another turn's files have been put here since: what is to be seen is not this one's to kill.
superseded() {
  [ -z "$even_if_superseded" ] || return 1
  current=
  { IFS= read -r current < "\${dir%/*}/current"; } 2>/dev/null
  [ -n "$current" ] && [ "$current" != "\${dir##*/}" ]
}
superseded && exit ${sweepSuperseded}

[ -d "$dir" ] || mkdir -p "$dir"
set -C
if { echo barred > "$dir/launched"; } 2>/dev/null; then exit 0; fi
set +C

since=
tries=0
while [ -z "$since" ] && [ $tries -lt 1000 ]; do
  IFS= read -r record < "$dir/launched"
  case $record in
    barred) exit 0 ;;
    *'"startTicks":'*) since=\${record##*'"startTicks":'}; since=\${since%%[!0-9]*} ;;
  esac
  tries=$((tries + 1))
done
[ -n "$since" ] || exit $alive

# Field 4 and, behind the name in parentheses, 22 and 23 of stat: the parent, the start, the size.
parse() {
  { IFS= read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- \${stat##*) }
  set +f
  state=$1 parent=$2 start=\${20} size=\${21}
}

spared=" $$ "
parse $$
while [ "$parent" -gt 1 ]; do
  spared="$spared$parent "
  parse "$parent" || break
done

look() {
  superseded && exit ${sweepSuperseded}
  found=0
  for path in /proc/[0-9]*; do
    pid=\${path#/proc/}
    case $spared in *" $pid "*) continue ;; esac
    parse "$pid" || continue
    # The dead, and the kernel's own, which have no memory.
    case $state in Z | X) continue ;; esac
    [ "$size" = 0 ] && continue
    # What can not be read off is not let off.
    case $start in
      '' | *[!0-9]*) ;;
      *) [ "$start" -ge "$since" ] || continue ;;
    esac
    # A sandbox that is no namespace sees the machine's processes: there only those with its mark are its own.
    if [ -n "$VERCEL_SANDBOX_LOCAL_SESSION" ]; then
      grep -qzx "VERCEL_SANDBOX_LOCAL_SESSION=$VERCEL_SANDBOX_LOCAL_SESSION" "$path/environ" 2>/dev/null || continue
    fi
    found=1
    kill -9 "$pid" 2>/dev/null
  done
}

tries=0
unseen=0
while [ $unseen -lt 2 ] && [ $tries -lt 300 ]; do
  look
  if [ $found = 0 ]; then unseen=$((unseen + 1)); else unseen=0; fi
  tries=$((tries + 1))
done
[ $unseen -ge 2 ] || exit $alive
`;
