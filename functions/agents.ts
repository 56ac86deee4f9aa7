import type { Agent, AgentAccess } from "@concierge/core";
import { type AgentNeeds, agentNeeds } from "@concierge/runner";

/** The keys and hosts of each agent, from the worker's environment. Only the worker has the agents' keys. */
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
  const reachable = address === undefined ? hosts : [new URL(address).host, ...hosts];
  const variables = baseUrl !== undefined && address !== undefined ? { [baseUrl]: address } : {};
  const value = secret && env[secret.name];
  const [host = ""] = reachable;
  return {
    hosts: reachable,
    env: variables,
    secrets: secret && value ? [{ ...secret, value, host }] : [],
    missing: secret && !value ? [secret.name] : [],
  };
}
