import type { AgentEvent } from "@concierge/protocol";
import type { TaskAnswer } from "../testing/client.ts";
import { ModelApi } from "../testing/model-api.ts";
import { startNpmCache } from "../testing/npm-cache.ts";
import { startConcierge } from "../testing/stack.ts";

export type Usage = { inputTokens: number; outputTokens: number; costUsd: number };

/** Concierge with a stub of the agents' model APIs, and npm on loopback. */
export async function startWorld(agent: "claude" | "codex") {
  const model = await ModelApi.start();
  const npm = await startNpmCache();
  const concierge = await startConcierge({
    env: { ...model.environment, CONCIERGE_DEV_PRIVATE_HOSTS: new URL(npm.url).host },
    reapEveryMs: 1000,
  });
  const { client } = concierge;
  const env = { npm_config_registry: npm.url };
  const network = { allow: ["127.0.0.1"] };

  /** In one session unless another is named, so that the agent is installed once. */
  async function start(prompt: string, over: Record<string, unknown> = {}): Promise<TaskAnswer> {
    return await client.start(prompt, { agent, sessionKey: "one", env, network, ...over });
  }

  async function ended(id: string) {
    return (await client.ended(id, 100_000)) as TaskAnswer & { usage: Usage };
  }

  return {
    ...concierge,
    model,
    start,
    async run(prompt: string, over: Record<string, unknown> = {}) {
      const { id } = await start(prompt, over);
      return await ended(id);
    },
    async continue(id: string, prompt: string, over: Record<string, unknown> = {}) {
      await client.continue(id, prompt, { env, ...over });
      return await ended(id);
    },
    ended,
    async said(id: string, turn = 1): Promise<AgentEvent[]> {
      const events = await client.events(id);
      return events
        .filter((event) => event.type === "agent" && event.turn === turn)
        .map((event) => event.agent as AgentEvent);
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await concierge[Symbol.asyncDispose]();
      await model[Symbol.asyncDispose]();
      await npm[Symbol.asyncDispose]();
    },
  };
}

export type World = Awaited<ReturnType<typeof startWorld>>;
