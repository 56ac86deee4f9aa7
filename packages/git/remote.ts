import type { GitRemote } from "@concierge/core";
import { findRef } from "./advertisement.ts";

const timeoutMs = 15_000;
const maxBytes = 4 * 1024 * 1024;

/**
 * The `GitRemote` over git's smart HTTP protocol, like `git ls-remote`; it needs no git binary. Undefined means that the
 * remote does not have the branch. Every failure is an `Error` and means that nothing is known: a status other than 2xx,
 * a redirect, a malformed or truncated answer, a branch beyond the first 4 MB, no time left.
 */
export function createGitRemote({
  timeLeftMs = () => timeoutMs,
}: {
  /** How much time the caller has left. No call takes longer. */
  timeLeftMs?: () => number;
} = {}): GitRemote {
  return {
    async readBranch(url, branch, credential) {
      const limitMs = Math.floor(Math.min(timeoutMs, timeLeftMs()));
      if (!(limitMs > 0)) throw new Error("No time left to query the git remote.");
      const response = await fetch(`${url.replace(/\/+$/, "")}/info/refs?service=git-upload-pack`, {
        headers: {
          "user-agent": "git/concierge",
          ...(credential && { authorization: basic(credential.username, credential.token) }),
        },
        redirect: "error",
        signal: AbortSignal.timeout(limitMs),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw new Error(`The git remote answered ${response.status}.`);
      }
      return findRef(await readStart(response), `refs/heads/${branch}`);
    },
  };
}

/** The first `maxBytes` of the answer. */
async function readStart({ body }: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.length;
    // Leaving the loop cancels the download.
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

function basic(username: string, token: string): string {
  return `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}`;
}
