import type { GitRemote } from "@concierge/core";
import { findRef } from "./advertisement.ts";

const timeoutMs = 15_000;

/** Asks a remote over git's smart HTTP, as `git ls-remote` does, where there is no git to run. */
export function createGitRemote(): GitRemote {
  return {
    async readBranch(url, branch, credential) {
      const response = await fetch(`${url.replace(/\/+$/, "")}/info/refs?service=git-upload-pack`, {
        headers: {
          "user-agent": "git/concierge",
          ...(credential && { authorization: basic(credential.username, credential.token) }),
        },
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
      });
      if (!response.ok) throw new Error(`The git remote answered ${response.status}.`);
      return findRef(Buffer.from(await response.arrayBuffer()), `refs/heads/${branch}`);
    },
  };
}

function basic(username: string, token: string): string {
  return `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}`;
}
