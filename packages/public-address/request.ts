import { lookup as resolve } from "node:dns";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { isPublicAddress, isPublicHost } from "./address.ts";

export class PrivateAddressError extends Error {
  constructor(host: string) {
    super(`${host} is or resolves to a private address`);
    this.name = "PrivateAddressError";
  }
}

export interface RequestOptions {
  method: "GET" | "POST";
  headers: Record<string, string>;
  body?: string;
  signal: AbortSignal;
  /** For local development, where other services run on the same machine. */
  allowPrivateHosts: boolean;
  lookUp?: typeof resolve | undefined;
}

/**
 * Sends a request to a public host and resolves with the response, whose body is not read yet. Rejects with a
 * `PrivateAddressError` if the host is or resolves to a private address. Redirects are not followed.
 */
export async function sendRequest(
  url: URL,
  { method, headers, body, signal, allowPrivateHosts, lookUp }: RequestOptions,
): Promise<IncomingMessage> {
  if (!allowPrivateHosts && !isPublicHost(url.hostname)) throw new PrivateAddressError(url.hostname);
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  return await new Promise((respond, reject) => {
    const sent = request(
      url,
      {
        method,
        headers,
        signal,
        agent: false,
        ...(!allowPrivateHosts && { lookup: publicLookup(lookUp) }),
      },
      respond,
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Refuses a name if any of its addresses is private: which one is used is not ours to choose. */
function publicLookup(lookUp: typeof resolve = resolve): LookupFunction {
  return (host, options, callback) => {
    lookUp(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "", 0);
      const [first] = addresses;
      const isAllPublic = addresses.every(({ address }) => isPublicAddress(address));
      if (!first || !isAllPublic) return callback(new PrivateAddressError(host), "", 0);
      if (options.all) return callback(null, addresses);
      return callback(null, first.address, first.family);
    });
  };
}
