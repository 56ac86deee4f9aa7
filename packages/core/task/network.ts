import type { AgentSecret, SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { networkCloseMs } from "../limits.ts";
import type { GitCredential, HeaderRule, NetworkPolicy } from "../ports.ts";
import type { Repo, Task } from "./schema.ts";

/**
 * What git may do with the turn's credential: fetch while the turn runs, push only from the write that grants it until
 * its outcome is known.
 */
export type GitAccess = "fetch" | "push";

/**
 * Lets requests to the repository's own path carry the git credential, which never enters the sandbox. Git names the
 * service in the query of its first request and in the path of its second.
 */
export function gitRules(
  repo: Repo | undefined,
  credential: GitCredential | undefined,
  access: readonly GitAccess[],
): HeaderRule[] {
  if (!repo || !credential) return [];
  const { host, pathname } = new URL(repo.url);
  const path = pathname.replace(/\/+$/, "");
  const basic = Buffer.from(`${credential.username}:${credential.token}`).toString("base64");
  const set = { name: "authorization", value: `Basic ${basic}` };
  return access.flatMap((kind) => {
    const service = kind === "fetch" ? "git-upload-pack" : "git-receive-pack";
    const ask = {
      method: "GET",
      path: { exact: `${path}/info/refs` },
      query: { name: "service", value: service },
    };
    const send = { method: "POST", path: { exact: `${path}/${service}` } };
    return [ask, send].map((match) => ({ host, match, set }));
  });
}

/**
 * Lets requests to the agent's model carry its key, if they carry this turn's placeholder. A command of the user in the
 * same sandbox, or a process of an earlier turn, does not know the placeholder.
 */
export function modelRules(secrets: readonly AgentSecret[], placeholder: string): HeaderRule[] {
  return secrets.map(({ host, path, header, scheme, value }) => {
    const headerOf = (text: string) => ({
      name: header,
      value: scheme === undefined ? text : `${scheme} ${text}`,
    });
    return {
      host,
      match: { path: { startsWith: path }, header: headerOf(placeholder) },
      set: headerOf(value),
    };
  });
}

/** The policy of a sandbox without a turn: the operator's hosts, and no credential. */
export function restingPolicy({ sandboxHosts }: { sandboxHosts: readonly string[] }): NetworkPolicy {
  return { allow: sandboxHosts, inject: [] };
}

/**
 * Takes a turn's credentials away from its sandbox. False if the provider did not confirm it. The time is short because
 * a runner waits for it; `followUp` tries again.
 */
export async function closeNetwork(deps: SandboxDeps, { sandbox }: Task): Promise<boolean> {
  if (!sandbox?.hosts) return true;
  const close = () => deps.provider.guardNetwork(sandbox, restingPolicy(deps.config));
  try {
    await deps.limitTime(networkCloseMs, close);
    return true;
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.kind === "gone" || error.kind === "stopped";
  }
}
