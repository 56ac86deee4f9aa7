import { lookup as resolve } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

export class PrivateAddressError extends Error {
  constructor(host: string) {
    super(`${host} is, or leads to, a private address`);
    this.name = "PrivateAddressError";
  }
}

/** Whether an address is one that anybody on the internet has: no loopback, no private net, no cloud's metadata. */
export function isPublic(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";
}

/** A host that is an address itself is never looked up, so it is judged before. */
export function checkLiteral(host: string): void {
  const address = host.replace(/^\[|\]$/g, "");
  if (isIP(address) !== 0 && !isPublic(address)) throw new PrivateAddressError(host);
}

/**
 * Looks a name up for the very connection that is made: what is judged is what is connected to, whatever the name
 * resolved to a moment before.
 */
export function publicLookup(lookUp: typeof resolve = resolve): LookupFunction {
  return (host, options, callback) => {
    lookUp(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "", 0);
      const [first] = addresses;
      const isAllPublic = addresses.every(({ address }) => isPublic(address));
      if (!first || !isAllPublic) return callback(new PrivateAddressError(host), "", 0);
      if (options.all) return callback(null, addresses);
      return callback(null, first.address, first.family);
    });
  };
}
