# The first program of a sandbox, with CAP_NET_ADMIN over its network namespace. Its arguments are the limits for
# processes, open files, memory (in KB, or "unlimited") and a file's size (in blocks of 512 bytes), and init's command.
# Built-in commands start nothing: fast.
#
# Every IPv4 address becomes local, so that each connection arrives at init's forwarder (network.mjs).
ip route add local default dev lo || exit 1
# Init has no capabilities and needs ports 22, 53, 80 and 443.
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || exit 1
ulimit -c 0
# bash calls it -u, dash -p.
ulimit -u "$1" 2>/dev/null || ulimit -p "$1" || exit 1
ulimit -n "$2" || exit 1
ulimit -d "$3" || exit 1
ulimit -f "$4" || exit 1
shift 4
# One more, for the last line. Programs in the sandbox cannot create user namespaces, and with them new capabilities.
echo 1 > /proc/sys/user/max_user_namespaces || exit 1
# In its own user namespace, init has no power over the network namespace, which belongs to the outer one.
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
