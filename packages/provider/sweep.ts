import type { SweepResult } from "@concierge/core";

/** Exit codes that neither a runner nor a shell ends with by itself. */
const exitCodes = { clean: 40, alive: 43, superseded: 44 } as const satisfies Record<SweepResult, number>;
const barredExitCode = 45;
/** How long a sweep goes on, in seconds: a caller waits five for one of its own, and two for the launcher's. */
const patience = { sweep: 3, launcher: 1 } as const;

/** What the scripts' exit codes say. Any other is no word of a sweep's. */
export const sweepResults: ReadonlyMap<number, SweepResult> = new Map([
  [exitCodes.clean, "clean"],
  [exitCodes.alive, "alive"],
  [exitCodes.superseded, "superseded"],
]);

/** Whether a launch ended because another launch of the turn, or a sweep, came first. It started nothing. */
export function isBarred(exitCode: number | null | undefined): boolean {
  return exitCode === barredExitCode;
}

/**
 * Kills whatever began at `since` or after, by start time and whoever's it is, until two looks in a row find nothing. A
 * process can leave its group, its terminal and its environment behind, but not the time it began. Only what the shell
 * has built in is used: it is quick, it needs no process that a fork bomb could leave it without, and it starts nothing
 * that it would have to overlook. Nothing is believed that the agent could have written: what can not be read is alive.
 *
 * Two sweeps at once may kill each other: then they end with none of the exit codes above.
 */
const sweep = `
# Another turn's files have been put here since: what is to be seen is not this one's to kill.
superseded() {
  [ -z "$even_if_superseded" ] || return 1
  current=
  { IFS= read -r current < "\${dir%/*}/current"; } 2>/dev/null
  [ -n "$current" ] && [ "$current" != "\${dir##*/}" ]
}

# Fields 4, 20, 22 and 23 of stat, of which 2, a name in parentheses, may hold anything: the parent, the number of
# threads, the start, the size.
parse() {
  { IFS= read -r stat < "$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- \${stat##*) }
  set +f
  parent=$2 threads=\${18} start=\${20} size=\${21}
}

# What has no memory can run nothing any more: it is a zombie, is being taken down, or is the kernel's own. That is
# each thread's for itself: the first may have ended, and all that is seen of the process with it, while others go on.
# From the signal on they begin no more of them.
is_dead() {
  [ "$size" = 0 ] || return 1
  [ "$threads" -gt 1 ] || return 0
  kill -9 "$pid" 2>/dev/null
  for thread in "$path"/task/[0-9]*; do
    parse "$thread" && [ "$size" = 0 ] || return 1
  done
}

# Whatever ended since the look before, or in the middle of this one, counts as found: it may have begun another that
# was not there yet to be listed, and that does the same.
look() {
  superseded && exit ${exitCodes.superseded}
  found=0
  dead_now=' '
  for path in /proc/[0-9]*; do
    pid=\${path#/proc/}
    case $spared in *" $pid "*) continue ;; esac
    if ! parse "$path"; then
      [ ! -e "$path" ] || exit ${exitCodes.alive}
      found=1
      continue
    fi
    # What can not be read off is not let off.
    case $start in
      '' | *[!0-9]*) ;;
      *) [ "$start" -ge "$since" ] || continue ;;
    esac
    # A sandbox that is no namespace sees the machine's processes: there only those with its mark are its own.
    if [ -n "$VERCEL_SANDBOX_LOCAL_SESSION" ]; then
      grep -qzx "VERCEL_SANDBOX_LOCAL_SESSION=$VERCEL_SANDBOX_LOCAL_SESSION" "$path"/task/*/environ 2>/dev/null || continue
    fi
    which="$pid:$start"
    if is_dead; then
      dead_now="$dead_now$which "
      case $dead_before in *" $which "*) ;; *) found=1 ;; esac
      continue
    fi
    found=1
    # What is there and can not be killed is another user's.
    kill -9 "$pid" 2>/dev/null || [ ! -e "$path" ] || exit ${exitCodes.alive}
  done
  dead_before=$dead_now
}

# Seconds since the machine began; nothing where that cannot be read.
seconds() {
  now=
  { IFS=' .' read -r now rest < /proc/uptime; } 2>/dev/null
}

# What is fought for longer than its caller waits is alive: it says so while it is still heard.
is_in_time() {
  seconds
  [ -z "$now" ] || [ -z "$until" ] || [ "$now" -lt "$until" ]
}

sweep() {
  seconds
  until=\${now:+$((now + patience))}
  # Where /proc does not show this shell and the first process, it is hidden what else there is.
  [ -r /proc/1/stat ] && parse "/proc/$$" || exit ${exitCodes.alive}
  spared=" 1 $$ "
  while [ "$parent" -gt 1 ]; do
    spared="$spared$parent "
    parse "/proc/$parent" || break
  done

  dead_before=' '
  tries=0
  unseen=0
  while [ $unseen -lt 2 ] && [ $tries -lt 300 ] && is_in_time; do
    look
    if [ $found = 0 ]; then unseen=$((unseen + 1)); else unseen=0; fi
    # A shell that looks again and again takes its time from what is dying.
    [ -z "$runner" ] || wait "$runner"
    tries=$((tries + 1))
  done
  [ $unseen -ge 2 ] || exit ${exitCodes.alive}
  exit ${exitCodes.clean}
}
`;

/**
 * Runs inside the sandbox, as `sh -c <script> sh <runDir> <since> [even-if-superseded]`, and ends with what it found.
 * First it bars the launch, by making the file that a launch must be the first to make. Whether it was first is all that
 * there is to know where nothing is known of a launch: `since` is empty then. The agent may have taken the file away;
 * so where one is known of, its word is not asked for.
 */
export const sweepScript = `
dir=$1
since=$2
even_if_superseded=$3
patience=${patience.sweep}
runner=
${sweep}
superseded && exit ${exitCodes.superseded}
[ -d "$dir" ] || mkdir -p "$dir"
set -C
first=
{ echo barred > "$dir/launched"; } 2>/dev/null && first=yes
set +C
if [ -z "$since" ]; then
  [ -n "$first" ] && exit ${exitCodes.clean}
  exit ${exitCodes.alive}
fi
sweep
`;

/**
 * Runs inside the sandbox, as `sh -c <script> sh <runDir> <command…>`: the command, and beside it a sweep that waits to
 * be told. Whoever stops the turn then needs no new process in a sandbox that may have no room for one, and has only
 * to signal what is there and to wait for its end. Of all launches of a turn the first goes on. When it began is the
 * first that it says: the provider keeps that, for a sweep that comes when this one is dead.
 */
export const launchScript = `
dir=$1
even_if_superseded=
patience=${patience.launcher}
runner=
${sweep}
parse "/proc/$$" || exit ${barredExitCode}
since=$start
set -C
{ echo "$since" > "$dir/launched"; } 2>/dev/null || exit ${barredExitCode}
set +C
echo "$since"
shift
trap 'kill -9 $runner 2>/dev/null; sweep' TERM
"$@" &
runner=$!
wait $runner
`;

/** When a launch began, by what its command has said. */
export function readSince(said: string): string | undefined {
  return /^(\d+)\n/.exec(said)?.[1];
}
