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
  const value = secret && env[secret.name];
  const model = modelOf(needs, env);
  return {
    hosts: model.url ? [model.host, ...hosts] : hosts,
    env: baseUrl && model.url ? { [baseUrl.name]: model.url } : {},
    secrets: secret && value ? [{ ...secret, value, host: model.host, path: model.path }] : [],
    missing: secret && !value ? [secret.name] : [],
  };
}

/** Where the agent's key may go: the given address, or else the first host. */
function modelOf({ hosts: [host = ""], secret, baseUrl }: AgentNeeds, env: NodeJS.ProcessEnv) {
  const url = baseUrl && env[baseUrl.name];
  if (!url) return { host, path: secret?.path ?? "/" };
  const { host: address, pathname } = new URL(url);
  return { url, host: address, path: `${pathname.replace(/\/+$/, "")}${baseUrl.path}` };
}
