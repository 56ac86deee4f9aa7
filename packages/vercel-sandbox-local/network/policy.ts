import { BlockList, isIP } from "node:net";
import { z } from "zod";

// A network policy as `@vercel/sandbox` defines it (its `network-policy.d.ts`), in the form of the API's requests.

const regex = z.string().refine(isRegExp, "is not a regular expression");
const Matcher = z.object({
  exact: z.string().optional(),
  startsWith: z.string().optional(),
  regex: regex.optional(),
});
const KeyValueMatcher = z.object({ key: Matcher.optional(), value: Matcher.optional() });

const Match = z.object({
  path: Matcher.optional(),
  method: z.array(z.string()).optional(),
  queryString: z.array(KeyValueMatcher).optional(),
  headers: z.array(KeyValueMatcher).optional(),
});

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is not a header name");
const Headers = z.record(headerName, z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/, "is not a header value"));

const Rule = z.object({
  match: Match.optional(),
  transform: z.array(z.object({ headers: Headers.optional() })).optional(),
  forwardURL: z.url({ protocol: /^https?$/ }).optional(),
  response: z
    .object({
      statusCode: z.number().int().min(200).max(599),
      headers: Headers.optional(),
      body: z.string().optional(),
      contentType: z.string().optional(),
    })
    .optional(),
});

const Cidr = z.string().refine((text) => parseCidr(text) !== undefined, "is not a CIDR");

export const NetworkPolicyRequest = z.union([
  z.object({ mode: z.enum(["allow-all", "deny-all"]) }),
  z.object({
    allow: z.union([z.array(z.string()), z.record(z.string(), z.array(Rule))]).optional(),
    subnets: z.object({ allow: z.array(Cidr).optional(), deny: z.array(Cidr).optional() }).optional(),
  }),
]);

export type NetworkPolicyRequest = z.infer<typeof NetworkPolicyRequest>;
export type Rule = z.infer<typeof Rule>;
type Matcher = z.infer<typeof Matcher>;
type KeyValueMatcher = z.infer<typeof KeyValueMatcher>;

export interface Policy {
  /** The entry for this host and port, or undefined if the policy does not allow it by name. */
  entryFor(host: string, port: number): PolicyEntry | undefined;
  /** Whether the policy allows any port of this host by name. */
  names(host: string): boolean;
  /** Hosts that have an entry for one port. */
  readonly hostsWithPort: readonly { host: string; port: number }[];
  /** Whether any address is allowed without regard to its name. */
  readonly allowsAddresses: boolean;
  allowsAddress(address: string): boolean;
  deniesAddress(address: string): boolean;
}

export interface PolicyEntry {
  rules: readonly Rule[];
  /** The policy has an entry for exactly this host and port, so its author means this service. */
  isExact: boolean;
}

export function compilePolicy(request: NetworkPolicyRequest): Policy {
  if ("mode" in request) {
    const allowsAll = request.mode === "allow-all";
    return {
      entryFor: () => (allowsAll ? { rules: [], isExact: false } : undefined),
      names: () => allowsAll,
      hostsWithPort: [],
      allowsAddresses: false,
      allowsAddress: () => false,
      deniesAddress: () => false,
    };
  }
  const { allow = [], subnets } = request;
  const domains: [string, Rule[]][] = Array.isArray(allow)
    ? allow.map((domain) => [domain, []])
    : Object.entries(allow);
  // The most specific entry counts: an exact host before a wildcard, a long wildcard before a short one, and the same
  // host with a port before the one without.
  const ordered = domains
    .map(([domain, rules]) => ({ ...parseDomain(domain), rules }))
    .sort(
      (a, b) =>
        Number(isWildcard(a.host)) - Number(isWildcard(b.host)) ||
        b.host.length - a.host.length ||
        Number(b.port !== undefined) - Number(a.port !== undefined),
    );
  const [allowed, denied] = [blockList(subnets?.allow ?? []), blockList(subnets?.deny ?? [])];
  return {
    entryFor(host, port) {
      const wanted = canonicalHost(host);
      const entry = ordered.find(
        (one) => hostMatches(one.host, wanted) && (one.port === undefined || one.port === port),
      );
      return entry && { rules: entry.rules, isExact: entry.port !== undefined && !isWildcard(entry.host) };
    },
    names: (host) => ordered.some((one) => hostMatches(one.host, canonicalHost(host))),
    hostsWithPort: ordered.flatMap(({ host, port }) =>
      port === undefined || isWildcard(host) ? [] : [{ host, port }],
    ),
    allowsAddresses: (subnets?.allow ?? []).length > 0,
    allowsAddress: (address) => allowed.check(address, familyOf(address)),
    deniesAddress: (address) => denied.check(address, familyOf(address)),
  };
}

export interface MatchedRequest {
  method: string;
  /** With the query string. */
  path: string;
  headers: readonly (readonly [string, string])[];
}

/** The first rule that applies. Rules run in order, and a rule without `match` applies to every request. */
export function ruleFor(rules: readonly Rule[], request: MatchedRequest): Rule | undefined {
  const url = URL.parse(`http://sandbox${request.path}`);
  const query = [...(url?.searchParams ?? [])];
  const pathname = url?.pathname ?? request.path;
  return rules.find(({ match = {} }) => {
    const { path, method, queryString = [], headers = [] } = match;
    if (path && !matches(path, pathname)) return false;
    if (method && !method.some((one) => one.toUpperCase() === request.method)) return false;
    return (
      queryString.every((wanted) => query.some((entry) => entryMatches(wanted, entry, (key) => key))) &&
      headers.every((wanted) =>
        request.headers.some((entry) => entryMatches(wanted, entry, (key) => key.toLowerCase())),
      )
    );
  });
}

function entryMatches(
  wanted: KeyValueMatcher,
  [key, value]: readonly [string, string],
  normal: (key: string) => string,
): boolean {
  const keyMatcher = wanted.key && {
    ...wanted.key,
    ...(wanted.key.exact !== undefined && { exact: normal(wanted.key.exact) }),
    ...(wanted.key.startsWith !== undefined && { startsWith: normal(wanted.key.startsWith) }),
  };
  return (!keyMatcher || matches(keyMatcher, normal(key))) && (!wanted.value || matches(wanted.value, value));
}

function matches({ exact, startsWith, regex }: Matcher, value: string): boolean {
  if (exact !== undefined && value !== exact) return false;
  if (startsWith !== undefined && !value.startsWith(startsWith)) return false;
  return regex === undefined || new RegExp(regex).test(value);
}

function isWildcard(host: string): boolean {
  return host.startsWith("*");
}

function hostMatches(pattern: string, host: string): boolean {
  if (pattern === "*") return true;
  if (pattern.startsWith("*.")) return host.endsWith(pattern.slice(1)) && host.length > pattern.length - 1;
  return pattern === host;
}

/** `host` or `host:port`. The port is our extension: on one machine, services differ only by it. */
function parseDomain(domain: string): { host: string; port: number | undefined } {
  const [, host = domain, port] = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/.exec(domain) ?? [];
  return { host: canonicalHost(host), port: port === undefined ? undefined : Number(port) };
}

/** In a sandbox, `localhost` arrives as its address. */
function canonicalHost(host: string): string {
  const plain = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return plain === "localhost" ? "127.0.0.1" : plain;
}

function blockList(cidrs: string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const parsed = parseCidr(cidr);
    if (parsed) list.addSubnet(parsed.address, parsed.bits, familyOf(parsed.address));
  }
  return list;
}

function parseCidr(text: string): { address: string; bits: number } | undefined {
  const [address = "", bits = ""] = text.split("/");
  const family = isIP(address);
  const most = family === 4 ? 32 : 128;
  if (family === 0 || (bits !== "" && (!/^\d{1,3}$/.test(bits) || Number(bits) > most))) return undefined;
  return { address, bits: bits === "" ? most : Number(bits) };
}

export function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

function isRegExp(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}
