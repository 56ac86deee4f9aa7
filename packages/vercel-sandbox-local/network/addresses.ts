import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { familyOf } from "./policy.ts";

/** Which private and loopback addresses sandboxes may reach: `host:port` each, or all but the machine's own services. */
export type AllowPrivate = "all" | readonly string[];

export interface AddressRules {
  allowPrivate: AllowPrivate;
  /** Whether a policy may open a private address by an entry for exactly this host and port. */
  allowNamedPrivate: boolean;
  /** The API's own port. No sandbox reaches it, not even with `allowPrivate: "all"`. */
  ownPort: () => number;
  resolve?: Resolve | undefined;
}

export interface Target {
  address: string;
  port: number;
}

/** Resolves a name in place of the host. It may also lead to another port. */
export type Resolve = (name: string, port: number) => Promise<Target[]>;

const v4 = "ipv4";
const v6 = "ipv6";

/** Networks of people and companies. `allowPrivate: "all"` opens them, and 127.0.0.1 and ::1. */
const privateNetworks = subnets([
  ["10.0.0.0", 8, v4],
  ["100.64.0.0", 10, v4],
  ["172.16.0.0", 12, v4],
  ["192.168.0.0", 16, v4],
  ["fc00::", 7, v6],
]);
const mainLoopback = subnets([
  ["127.0.0.1", 32, v4],
  ["::1", 128, v6],
]);
/** Everything else that is not a public address: cloud metadata, other loopback addresses, IPv4 inside IPv6, … */
const special = subnets([
  ["0.0.0.0", 8, v4],
  ["127.0.0.0", 8, v4],
  ["169.254.0.0", 16, v4],
  ["192.0.0.0", 24, v4],
  ["192.0.2.0", 24, v4],
  ["198.18.0.0", 15, v4],
  ["198.51.100.0", 24, v4],
  ["203.0.113.0", 24, v4],
  ["224.0.0.0", 3, v4],
  ["::", 96, v6],
  ["::ffff:0:0", 96, v6],
  ["64:ff9b::", 32, v6],
  ["100::", 64, v6],
  ["2001::", 23, v6],
  ["2001:db8::", 32, v6],
  ["2002::", 16, v6],
  ["fe80::", 10, v6],
  ["fec0::", 10, v6],
  ["ff00::", 8, v6],
]);

/** Where a name leads, as the host resolves it. Empty if it does not exist. */
export async function targetsOf(host: string, port: number, { resolve }: AddressRules): Promise<Target[]> {
  if (isIP(host)) return [{ address: plain(host), port }];
  const found = resolve ? await resolve(host, port) : await lookUp(host, port);
  return found.map((target) => ({ ...target, address: plain(target.address) }));
}

async function lookUp(host: string, port: number): Promise<Target[]> {
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => ({ address, port }));
}

/**
 * Whether a sandbox may reach this address at all, before its policy is applied. `isExact`: the policy has an entry for
 * exactly this host and port.
 */
export function isReachable(
  host: string,
  { address, port }: Target,
  rules: AddressRules,
  isExact: boolean,
): boolean {
  const family = familyOf(address);
  if (port === rules.ownPort() && isThisMachine(address)) return false;
  const isPrivate = privateNetworks.check(address, family);
  const isMainLoopback = mainLoopback.check(address, family);
  if (!isPrivate && !isMainLoopback && !special.check(address, family)) return true;
  const isOpen = rules.allowPrivate === "all" || (rules.allowNamedPrivate && isExact);
  if (isOpen && (isPrivate || isMainLoopback)) return true;
  if (rules.allowPrivate === "all") return false;
  return (
    rules.allowPrivate.includes(hostPort(host, port)) || rules.allowPrivate.includes(hostPort(address, port))
  );
}

export const loopbackNames: ReadonlySet<string> = new Set(["127.0.0.1", "localhost", "::1", "[::1]"]);

/** The loopback ports that an explicit list names. */
export function listedLoopbackPorts(allowPrivate: AllowPrivate): number[] {
  if (allowPrivate === "all") return [];
  return allowPrivate.flatMap((entry) => {
    const colon = entry.lastIndexOf(":");
    const isLoopback = loopbackNames.has(entry.slice(0, colon));
    return isLoopback ? [Number(entry.slice(colon + 1))] : [];
  });
}

function isThisMachine(address: string): boolean {
  const family = familyOf(address);
  if (mainLoopback.check(address, family) || special.check(address, family)) return true;
  return Object.values(networkInterfaces()).some((list) => list?.some((one) => one.address === address));
}

function hostPort(host: string, port: number): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The canonical form. IPv4 addresses inside IPv6 are judged as what they are. */
function plain(address: string): string {
  if (isIP(address) !== 6) return address;
  const canonical = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? "::";
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return canonical;
  const value = Number.parseInt(mapped[1] ?? "0", 16) * 65_536 + Number.parseInt(mapped[2] ?? "0", 16);
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255].join(".");
}

function subnets(list: [string, number, "ipv4" | "ipv6"][]): BlockList {
  const blocks = new BlockList();
  for (const [address, bits, family] of list) blocks.addSubnet(address, bits, family);
  return blocks;
}
