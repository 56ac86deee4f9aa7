import type { IncomingMessage } from "node:http";
import type { GitCredential, GitRemote } from "@concierge/core";
import { type RequestOptions, sendRequest } from "@concierge/public-address/request";
import { findRef } from "./advertisement.ts";

const timeoutMs = 15_000;
const maxBytes = 4 * 1024 * 1024;
const maxRedirects = 3;

export interface GitRemoteOptions extends Pick<RequestOptions, "allowPrivateHosts" | "lookUp"> {
  /** How much time the caller has left. No call takes longer. */
  timeLeftMs?: () => number;
}

/**
 * The `GitRemote` over git's smart HTTP protocol, like `git ls-remote`; it needs no git binary. Undefined means that the
 * remote does not have the branch. Every failure is an `Error` and means that nothing is known: a private address, a
 * status other than 2xx, too many redirects, a malformed or truncated answer, a branch beyond the first 4 MB, no time
 * left.
 */
export function createGitRemote({ timeLeftMs = () => timeoutMs, ...guard }: GitRemoteOptions): GitRemote {
  return {
    async readBranch(url, branch, credential) {
      const limitMs = Math.floor(Math.min(timeoutMs, timeLeftMs()));
      if (!(limitMs > 0)) throw new Error("No time left to query the git remote.");
      const refs = new URL(`${url.replace(/\/+$/, "")}/info/refs?service=git-upload-pack`);
      const response = await follow(refs, credential, { ...guard, signal: AbortSignal.timeout(limitMs) });
      return findRef(await readStart(response), `refs/heads/${branch}`);
    },
  };
}

/** Follows redirects, each to a checked address. The credential is for the first origin only. */
async function follow(
  first: URL,
  credential: GitCredential | undefined,
  options: Omit<RequestOptions, "method" | "headers">,
): Promise<IncomingMessage> {
  let url = first;
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const isSame = url.origin === first.origin;
    const headers = {
      "user-agent": "git/concierge",
      ...(credential && isSame && { authorization: basic(credential.username, credential.token) }),
    };
    const response = await sendRequest(url, { method: "GET", headers, ...options });
    const { statusCode: status = 0 } = response;
    if (status >= 200 && status < 300) return response;
    response.destroy();
    const { location } = response.headers;
    if (status < 300 || status >= 400 || location === undefined)
      throw new Error(`The git remote answered ${status}.`);
    const next = new URL(location, url);
    if (next.protocol !== "https:" && next.protocol !== url.protocol)
      throw new Error("The git remote redirects to an insecure address.");
    url = next;
  }
  throw new Error("The git remote redirects too often.");
}

/** The first `maxBytes` of the answer. */
async function readStart(response: IncomingMessage): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    // Leaving the loop ends the download.
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

function basic(username: string, token: string): string {
  return `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}`;
}
