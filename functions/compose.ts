import { setTimeout as delay } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  type Config,
  createFlagReader,
  createId,
  createSealer,
  type EndingDeps,
  lazily,
  parseConfig,
  type SessionDeps,
  type Sessions,
} from "@concierge/core";
import { createGitRemote } from "@concierge/git";
import { createDynamoStore } from "@concierge/store";
import { Resource } from "sst";
import * as z from "zod/mini";
import { limitTime, timeLeftMs } from "./context.ts";
import { neverShow, neverShowSecretsOf } from "./mask.ts";
import { createMetrics } from "./metrics.ts";

// A compiled schema parses a task some microseconds sooner, and takes milliseconds to compile: a cold start has fifteen.
z.config({ jitless: true });

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    delay(ms, undefined, signal && { signal }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    }),
};

/**
 * What every function's verbs are given, from the environment and from `Resource` alone. The table is what every
 * invocation needs; the rest is loaded when it is called.
 */
export async function composeDeps(): Promise<EndingDeps & SessionDeps> {
  neverShowSecretsOf(process.env);
  neverShow(Resource.SealingKey.value);
  const config = await withAgents(parseConfig(process.env));
  const store = createDynamoStore({ client: new DynamoDBClient(), tableName: Resource.Table.name, clock });
  const deps = {
    config,
    clock,
    ids: {
      task: () => createId("task", clock.now()),
      key: () => createId("key", clock.now()),
      claim: () => createId("claim", clock.now()),
      warm: () => createId("warm", clock.now()),
    },
    store,
    work: lazily(async () => (await import("./queues.ts")).work),
    timers: lazily(async () => (await import("./queues.ts")).timers),
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: createMetrics(config.stage),
    sealer: createSealer(Resource.SealingKey.value),
    provider: lazily(async () => (await import("./provider.ts")).createProvider(config.sandboxUrl)),
    timeLeftMs,
    limitTime,
    git: createGitRemote({ timeLeftMs }),
  };
  const sessions = lazily<Sessions>(async () => {
    const { SandboxSessionManager } = await import("@concierge/sessions");
    return new SandboxSessionManager({ ...config, ...deps, keepOnShutdown: true });
  });
  return { ...deps, sessions };
}

/** What is installed into every sandbox: the agents it is to have, then what the operator says. */
async function withAgents(config: Config): Promise<Config> {
  if (config.sandboxAgents.length === 0) return config;
  const { setupScript } = await import("@concierge/runner");
  const agents = setupScript(config.sandboxAgents);
  return { ...config, setup: config.setup === undefined ? agents : `${agents}\n${config.setup}` };
}
