# The first program of a sandbox, with CAP_NET_ADMIN over its network namespace. Its arguments are limits for prlimit,
# "--", and init's command.
#
# Every IPv4 address becomes local, so that each connection arrives at init's forwarder (network.mjs).
ip route add local default dev lo || exit 1
# Init has no capabilities and needs ports 22, 53, 80 and 443.
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || exit 1
# In its own user namespace, init has no power over the network namespace, which belongs to the outer one.
exec prlimit "$@"
