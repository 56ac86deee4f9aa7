import type { Agent, AgentAccess } from "@concierge/core";
import { type AgentNeeds, agentNeeds } from "@concierge/runner";

/** What each agent may be given, from the worker's environment: the only place that has the agents' keys. */
export function agentAccess(env: NodeJS.ProcessEnv): Record<Agent, AgentAccess> {
  const { claude, codex, cursor, shell } = agentNeeds;
  return {
    claude: accessFrom(claude, env),
    codex: accessFrom(codex, env),
    cursor: accessFrom(cursor, env),
    shell: accessFrom(shell, env),
  };
}

function accessFrom(needs: AgentNeeds, env: NodeJS.ProcessEnv): AgentAccess {
  const { hosts, secret, baseUrl } = needs;
  const address = baseUrl === undefined ? undefined : env[baseUrl];
  const reached = address === undefined ? hosts : [new URL(address).hostname, ...hosts];
  const variables = baseUrl !== undefined && address !== undefined ? { [baseUrl]: address } : {};
  const value = secret && env[secret.name];
  const [host = ""] = reached;
  return {
    hosts: reached,
    env: variables,
    secrets: secret && value ? [{ ...secret, value, host }] : [],
    missing: secret && !value ? [secret.name] : [],
  };
}
