import { setTimeout as delay } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  type Config,
  createFlagReader,
  createId,
  createSealer,
  type EndingDeps,
  type Provider,
  parseConfig,
  required,
} from "@concierge/core";
import { createGitRemote } from "@concierge/git";
import { createVercelProvider } from "@concierge/provider-vercel";
import { createDynamoStore } from "@concierge/store";
import { Resource } from "sst";
import * as z from "zod/mini";
import { limitTime, timeLeftMs } from "./context.ts";
import { neverShow, neverShowSecretsOf } from "./telemetry/mask.ts";
import { createMetrics } from "./telemetry/metrics.ts";
import { alsoOverOtlp, startTelemetry, traced } from "./telemetry/trace.ts";

// Compiling a schema takes milliseconds of a cold start and saves only microseconds per parse.
z.config({ jitless: true });

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    delay(ms, undefined, signal && { signal }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    }),
};

/**
 * The dependencies of every function's verbs, from the environment and `Resource`. Every invocation needs the table. The
 * queues and the provider's SDK are loaded on first use.
 */
export async function composeDeps(): Promise<EndingDeps> {
  neverShowSecretsOf(process.env);
  neverShow(...Resource.SealingKey.value.split(",").map((key) => key.trim()));
  const config = await withAgents(parseConfig(process.env));
  await startTelemetry(config.stage, process.env);
  const store = createDynamoStore({ client: new DynamoDBClient(), tableName: Resource.Table.name, clock });
  return {
    config,
    clock,
    ids: {
      task: () => createId("task", clock.now()),
      key: () => createId("key", clock.now()),
      claim: () => createId("claim", clock.now()),
      warm: () => createId("warm", clock.now()),
    },
    store,
    work: { send: async (...args) => (await import("./queues.ts")).work.send(...args) },
    timers: { arm: async (...args) => (await import("./queues.ts")).timers.arm(...args) },
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: alsoOverOtlp(createMetrics(config.stage)),
    sealer: createSealer(Resource.SealingKey.value),
    provider: traced("sandbox", composeProvider(config)),
    timeLeftMs,
    limitTime,
    git: createGitRemote({ timeLeftMs, allowPrivateHosts: config.allowPrivateHosts }),
  };
}

/** Only some functions have the credentials, so they are read when the provider is first called. */
function composeProvider({ sandboxUrl }: Config): Provider {
  return createVercelProvider({
    get token() {
      return required(process.env, "VERCEL_TOKEN");
    },
    get teamId() {
      return required(process.env, "VERCEL_TEAM_ID");
    },
    get projectId() {
      return required(process.env, "VERCEL_PROJECT_ID");
    },
    baseUrl: sandboxUrl,
    // A call ends while there is still time to record that it failed.
    timeLeftMs,
  });
}

/** The setup of every sandbox installs the agents first, then runs the operator's script. */
async function withAgents(config: Config): Promise<Config> {
  if (config.sandboxAgents.length === 0) return config;
  const { setupScript } = await import("@concierge/runner");
  const agents = setupScript(config.sandboxAgents);
  return { ...config, setup: config.setup === undefined ? agents : `${agents}\n${config.setup}` };
}
