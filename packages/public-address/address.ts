import { BlockList, isIP } from "node:net";

/**
 * Everything that is not a host on the public internet, from the IANA registries of special-purpose addresses. Ranges that
 * embed an IPv4 address (NAT64, 6to4, Teredo) are blocked as a whole: a translator could lead to any private address.
 */
const specialRanges: readonly [address: string, prefixLength: number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
  // Unspecified, loopback, IPv4-compatible and IPv4-mapped.
  ["::", 80],
  ["64:ff9b::", 32],
  ["100::", 64],
  // Teredo, benchmarks, ORCHID and other protocol assignments.
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
  ["5f00::", 16],
  ["fc00::", 7],
  ["fe80::", 9],
  ["ff00::", 8],
];

// One list per family: a single one would compare IPv4 addresses with `::/80`, too.
const special = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const [address, prefixLength] of specialRanges) {
  const family = familyOf(address);
  special[family].addSubnet(address, prefixLength, family);
}

/** Names that never lead to a public host. */
const privateName = /(^|\.)(localhost|local|internal)\.?$/i;

/** Whether an IP address is a host on the public internet. False for anything that is not an address. */
export function isPublicAddress(address: string): boolean {
  const family = familyOf(address);
  return isIP(address) !== 0 && !special[family].check(address, family);
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return address.includes(":") ? "ipv6" : "ipv4";
}

/**
 * Whether a URL's host can be public, from its text alone. A name that is not known to be private still has to be checked
 * when it is resolved.
 */
export function isPublicHost(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, "");
  return isIP(address) === 0 ? !privateName.test(hostname) : isPublicAddress(address);
}
