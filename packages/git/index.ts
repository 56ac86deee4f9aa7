import type { GitRemote } from "@concierge/core";
import { findRef } from "./advertisement.ts";

const timeoutMs = 15_000;
const maxBytes = 4 * 1024 * 1024;

/**
 * Asks a remote over git's smart HTTP, as `git ls-remote` does, where there is no git to run. A branch that the remote
 * does not have is undefined. Every failure is an `Error` and means that nothing is known: a status other than 2xx, a
 * redirect, an answer that is not git's or was cut off, more than 4 MB, no time left.
 */
export function createGitRemote({
  timeLeftMs = () => timeoutMs,
}: {
  /** How much time the caller has left: no call takes longer. */
  timeLeftMs?: () => number;
} = {}): GitRemote {
  return {
    async readBranch(url, branch, credential) {
      const limitMs = Math.floor(Math.min(timeoutMs, timeLeftMs()));
      if (!(limitMs > 0)) throw new Error("There is no time left to ask the git remote.");
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

/** As much of the answer as we are willing to read. */
async function readStart({ body }: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.length;
    // Leaving the loop cancels the rest.
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

function basic(username: string, token: string): string {
  return `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}`;
}
