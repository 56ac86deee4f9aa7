#!/bin/sh
# launch.sh <runDir> <command...>: runs inside the sandbox. Starts the command, and sweeps when it gets SIGTERM.
#
# A stop then needs no new process in a sandbox that may have no room for one: it signals this process and waits for its
# exit code. Of concurrent launches of a turn the first continues. Its first output is its start time, which the provider
# keeps for a sweep that runs after this process is dead.
dir=$1
even_if_superseded=
# In seconds. The caller waits two.
patience=1
runner=
# shellcheck source=SCRIPTDIR/common.sh
. "${0%/*}/common.sh"

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
# Only the runner reads its configuration.
exec 3<&-
wait "$runner"
