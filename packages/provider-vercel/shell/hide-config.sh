#!/bin/sh
# hide-config.sh <script> <args...>: runs inside the sandbox. Replaces itself by the script, with the turn's configuration
# on file descriptor 3 instead of in the environment, which the agent could read in /proc as long as the launcher lives.
# The process keeps its id and its start time.
script=$1
shift
exec 3<<END
$CONCIERGE_TURN
END
unset CONCIERGE_TURN
exec sh -c "$script" sh "$@"
