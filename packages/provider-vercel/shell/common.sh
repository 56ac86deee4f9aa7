# shellcheck shell=sh disable=SC2034,SC2154 # some variables are set or used by the including script
# The sweep: kills every process that started at $since or later, until two passes in a row over /proc find none. A
# process can leave its process group, terminal and environment, but it cannot change its start time.
#
# - The passes use only shell builtins. They need no new process, which a fork bomb could deny, and they leave no process
#   of our own that a pass would have to skip. (Only is_of_sandbox needs grep, and only if a mark is set.)
# - Nothing that the agent can write is trusted. What cannot be read counts as alive.
# - Two concurrent sweeps may kill each other. Then neither exits with one of these codes.
#
# The including script sets dir, since, even_if_superseded, patience and runner.

# Neither a runner nor a shell exits with these codes by itself. shell/generate.ts copies them to scripts.ts.
exit_clean=40
exit_alive=43
exit_superseded=44
exit_barred=45

# True if the files of a later turn are in the sandbox. Then the processes may be that turn's, and are not ours to kill.
is_superseded() {
  [ -z "$even_if_superseded" ] || return 1
  current=
  { IFS= read -r current < "${dir%/*}/current"; } 2>/dev/null
  [ -n "$current" ] && [ "$current" != "${dir##*/}" ]
}

# Reads fields 4 (parent), 20 (threads), 22 (start time) and 23 (memory size) of a stat file. Field 2 is the program's
# name in parentheses, which can contain anything, so everything up to the last parenthesis is dropped.
read_stat() {
  { IFS= read -r stat < "$1/stat"; } 2>/dev/null || return 1
  set -f
  # shellcheck disable=SC2086 # splits into fields
  set -- ${stat##*) }
  set +f
  parent=$2 threads=${18} start=${20} size=${21}
}

# A process without memory runs nothing: it is a zombie, is exiting, or belongs to the kernel. Each thread has its own
# memory reference: the first thread may have exited, and the process then shows no memory, while others still run. The
# signal keeps them from starting more threads while we look.
is_dead() {
  [ "$size" = 0 ] || return 1
  [ "$threads" -gt 1 ] || return 0
  kill -9 "$pid" 2>/dev/null
  for thread in "$path"/task/[0-9]*; do
    read_stat "$thread" && [ "$size" = 0 ] || return 1
  done
}

# A provider that cannot give a sandbox its own process namespace sets SANDBOX_PROCESS_MARK for every command. Then /proc
# shows the processes of the whole machine, and only those that carry the same value belong to the sandbox. The agent
# cannot set it here: the environment of a launch and of a sweep is made by the control plane and the provider.
is_of_sandbox() {
  [ -z "$SANDBOX_PROCESS_MARK" ] ||
    grep -qzx "SANDBOX_PROCESS_MARK=$SANDBOX_PROCESS_MARK" "$path"/task/*/environ 2>/dev/null
}

# One pass over /proc. A process can fork and exit while we list: the child is not in our list, and the parent is gone.
# So a process that died since the last pass, or during this one, counts as found. Otherwise a process that keeps forking
# and exiting would never be seen.
kill_once() {
  is_superseded && exit "$exit_superseded"
  found=0
  dead_now=' '
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    case $spared in *" $pid "*) continue ;; esac
    if ! read_stat "$path"; then
      [ ! -e "$path" ] || exit "$exit_alive"
      found=1
      continue
    fi
    # A start time that is not a number does not exempt a process.
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
    # A process that exists and cannot be killed belongs to another user.
    kill -9 "$pid" 2>/dev/null || [ ! -e "$path" ] || exit "$exit_alive"
  done
  dead_before=$dead_now
}

# Sets now to the machine's uptime in seconds, or to nothing if that cannot be read.
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
  until=${now:+$((now + patience))}
  # If /proc does not show process 1 and this shell, it hides other processes too.
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
    # Wait for the killed runner instead of competing with it for the CPU while it exits.
    [ -z "$runner" ] || wait "$runner"
    passes=$((passes + 1))
  done
  [ "$empty_passes" -ge 2 ] || exit "$exit_alive"
  exit "$exit_clean"
}
