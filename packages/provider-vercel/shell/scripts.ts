// Generated from the shell scripts beside it by `npm run shell`. Do not edit.

export const exitCodes = { clean: 40, alive: 43, superseded: 44, barred: 45 } as const;

export const sweepScript = `dir=$1
since=$2
even_if_superseded=$3
patience=3
runner=
exit_clean=40
exit_alive=43
exit_superseded=44
exit_barred=45
is_superseded() {
  [ -z "$even_if_superseded" ] || return 1
  current=
  { IFS= read -r current < "\${dir%/*}/current"; } 2>/dev/null
  [ -n "$current" ] && [ "$current" != "\${dir##*/}" ]
}
read_stat() {
  { IFS= read -r stat < "$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- \${stat##*) }
  set +f
  parent=$2 threads=\${18} start=\${20} size=\${21}
}
is_dead() {
  [ "$size" = 0 ] || return 1
  [ "$threads" -gt 1 ] || return 0
  kill -9 "$pid" 2>/dev/null
  for thread in "$path"/task/[0-9]*; do
    read_stat "$thread" && [ "$size" = 0 ] || return 1
  done
}
is_of_sandbox() {
  [ -z "$SANDBOX_PROCESS_MARK" ] ||
    grep -qzx "SANDBOX_PROCESS_MARK=$SANDBOX_PROCESS_MARK" "$path"/task/*/environ 2>/dev/null
}
kill_once() {
  is_superseded && exit "$exit_superseded"
  found=0
  dead_now=' '
  for path in /proc/[0-9]*; do
    pid=\${path#/proc/}
    case $spared in *" $pid "*) continue ;; esac
    if ! read_stat "$path"; then
      [ ! -e "$path" ] || exit "$exit_alive"
      found=1
      continue
    fi
    case $start in
      '' | *[!0-9]*) ;;
      *) [ "$start" -ge "$since" ] || continue ;;
    esac
    is_of_sandbox || continue
    if is_dead; then
      dead_now="$dead_now$pid:$start "
      case $dead_before in *" $pid:$start "*) ;; *) found=1 ;; esac
      continue
    fi
    found=1
    kill -9 "$pid" 2>/dev/null || [ ! -e "$path" ] || exit "$exit_alive"
  done
  dead_before=$dead_now
}
read_uptime() {
  now=
  { IFS=' .' read -r now _ < /proc/uptime; } 2>/dev/null
}
has_time_left() {
  read_uptime
  [ -z "$now" ] || [ -z "$until" ] || [ "$now" -lt "$until" ]
}
sweep() {
  read_uptime
  until=\${now:+$((now + patience))}
  [ -r /proc/1/stat ] && read_stat "/proc/$$" || exit "$exit_alive"
  spared=" 1 $$ "
  while [ "$parent" -gt 1 ]; do
    spared="$spared$parent "
    read_stat "/proc/$parent" || break
  done
  dead_before=' '
  passes=0
  empty_passes=0
  while [ "$empty_passes" -lt 2 ] && [ "$passes" -lt 300 ] && has_time_left; do
    kill_once
    if [ "$found" = 0 ]; then empty_passes=$((empty_passes + 1)); else empty_passes=0; fi
    [ -z "$runner" ] || wait "$runner"
    passes=$((passes + 1))
  done
  [ "$empty_passes" -ge 2 ] || exit "$exit_alive"
  exit "$exit_clean"
}
is_superseded && exit "$exit_superseded"
[ -d "$dir" ] || mkdir -p "$dir"
set -C
is_first=
{ echo barred > "$dir/launched"; } 2>/dev/null && is_first=yes
set +C
if [ -z "$since" ]; then
  [ -n "$is_first" ] && exit "$exit_clean"
  exit "$exit_alive"
fi
sweep
`;

export const hideConfigScript = `script=$1
shift
exec 3<<END
$CONCIERGE_TURN
END
unset CONCIERGE_TURN
exec sh -c "$script" sh "$@"
`;

export const launchScript = `dir=$1
even_if_superseded=
patience=1
runner=
exit_clean=40
exit_alive=43
exit_superseded=44
exit_barred=45
is_superseded() {
  [ -z "$even_if_superseded" ] || return 1
  current=
  { IFS= read -r current < "\${dir%/*}/current"; } 2>/dev/null
  [ -n "$current" ] && [ "$current" != "\${dir##*/}" ]
}
read_stat() {
  { IFS= read -r stat < "$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- \${stat##*) }
  set +f
  parent=$2 threads=\${18} start=\${20} size=\${21}
}
is_dead() {
  [ "$size" = 0 ] || return 1
  [ "$threads" -gt 1 ] || return 0
  kill -9 "$pid" 2>/dev/null
  for thread in "$path"/task/[0-9]*; do
    read_stat "$thread" && [ "$size" = 0 ] || return 1
  done
}
is_of_sandbox() {
  [ -z "$SANDBOX_PROCESS_MARK" ] ||
    grep -qzx "SANDBOX_PROCESS_MARK=$SANDBOX_PROCESS_MARK" "$path"/task/*/environ 2>/dev/null
}
kill_once() {
  is_superseded && exit "$exit_superseded"
  found=0
  dead_now=' '
  for path in /proc/[0-9]*; do
    pid=\${path#/proc/}
    case $spared in *" $pid "*) continue ;; esac
    if ! read_stat "$path"; then
      [ ! -e "$path" ] || exit "$exit_alive"
      found=1
      continue
    fi
    case $start in
      '' | *[!0-9]*) ;;
      *) [ "$start" -ge "$since" ] || continue ;;
    esac
    is_of_sandbox || continue
    if is_dead; then
      dead_now="$dead_now$pid:$start "
      case $dead_before in *" $pid:$start "*) ;; *) found=1 ;; esac
      continue
    fi
    found=1
    kill -9 "$pid" 2>/dev/null || [ ! -e "$path" ] || exit "$exit_alive"
  done
  dead_before=$dead_now
}
read_uptime() {
  now=
  { IFS=' .' read -r now _ < /proc/uptime; } 2>/dev/null
}
has_time_left() {
  read_uptime
  [ -z "$now" ] || [ -z "$until" ] || [ "$now" -lt "$until" ]
}
sweep() {
  read_uptime
  until=\${now:+$((now + patience))}
  [ -r /proc/1/stat ] && read_stat "/proc/$$" || exit "$exit_alive"
  spared=" 1 $$ "
  while [ "$parent" -gt 1 ]; do
    spared="$spared$parent "
    read_stat "/proc/$parent" || break
  done
  dead_before=' '
  passes=0
  empty_passes=0
  while [ "$empty_passes" -lt 2 ] && [ "$passes" -lt 300 ] && has_time_left; do
    kill_once
    if [ "$found" = 0 ]; then empty_passes=$((empty_passes + 1)); else empty_passes=0; fi
    [ -z "$runner" ] || wait "$runner"
    passes=$((passes + 1))
  done
  [ "$empty_passes" -ge 2 ] || exit "$exit_alive"
  exit "$exit_clean"
}
read_stat "/proc/$$" || exit "$exit_barred"
since=$start
set -C
{ echo "$since" > "$dir/launched"; } 2>/dev/null || exit "$exit_barred"
set +C
echo "$since"
shift
trap 'kill -9 "$runner" 2>/dev/null; sweep' TERM
"$@" &
runner=$!
exec 3<&-
wait "$runner"
`;
