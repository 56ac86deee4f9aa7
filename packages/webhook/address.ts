import { lookup as resolve } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

export class PrivateAddressError extends Error {
  constructor(host: string) {
    super(`${host} is or resolves to a private address`);
    this.name = "PrivateAddressError";
  }
}

/** Whether an address is on the public internet: not loopback, private, link-local or cloud metadata. */
export function isPublic(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";
}

/** A host that is an IP address is never looked up, so it is checked before the request. */
export function checkLiteral(host: string): void {
  const address = host.replace(/^\[|\]$/g, "");
  if (isIP(address) !== 0 && !isPublic(address)) throw new PrivateAddressError(host);
}

/**
 * A lookup for the connection itself. Checking the name beforehand would leave a window in which it can resolve to another
 * address (DNS rebinding).
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
