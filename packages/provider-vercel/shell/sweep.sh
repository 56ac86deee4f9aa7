#!/bin/sh
# sweep.sh <runDir> <since> [even-if-superseded]: runs inside the sandbox as root and exits with what it found.
#
# It first bars the launch by creating the file that a launch must be first to create. If no launch is known ($since is
# empty), being first is the only proof that nothing runs. If one is known, the file proves nothing, because the agent may
# have deleted it.
dir=$1
since=$2
even_if_superseded=$3
# In seconds. The caller waits five.
patience=3
runner=
# shellcheck source=SCRIPTDIR/common.sh
. "${0%/*}/common.sh"

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
