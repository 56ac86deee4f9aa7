import { setTimeout as delay } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import {
  type Clock,
  type Config,
  createFlagReader,
  createId,
  createSealer,
  type EndingDeps,
  parseConfig,
  type SessionDeps,
} from "@concierge/core";
import { createGitRemote } from "@concierge/git";
import { createTimers, createWorkQueue } from "@concierge/queue";
import { setupScript } from "@concierge/runner";
import { SandboxSessionManager } from "@concierge/sessions";
import { createDynamoStore } from "@concierge/store";
import { Resource } from "sst";
import { currentRequestId } from "./context.ts";
import { neverShow, neverShowSecretsOf } from "./mask.ts";
import { createMetrics } from "./metrics.ts";
import { createLazyProvider } from "./provider.ts";

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    delay(ms, undefined, signal && { signal }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    }),
};

/** What every function's verbs are given, from the environment and from `Resource` alone. */
export function composeDeps(): EndingDeps & SessionDeps {
  neverShowSecretsOf(process.env);
  neverShow(Resource.SealingKey.value);
  const config = withAgents(parseConfig(process.env));
  const store = createDynamoStore({ client: new DynamoDBClient(), tableName: Resource.Table.name, clock });
  const client = new SQSClient();
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
    work: createWorkQueue({ client, queueUrl: Resource.WorkQueue.url, requestId: currentRequestId }),
    timers: createTimers({ client, queueUrl: Resource.TimerQueue.url, requestId: currentRequestId }),
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: createMetrics(config.stage),
    sealer: createSealer(Resource.SealingKey.value),
    provider: createLazyProvider(config.sandboxUrl),
    git: createGitRemote(),
  };
  return { ...deps, sessions: new SandboxSessionManager({ ...config, ...deps, keepOnShutdown: true }) };
}

/** What is installed into every sandbox: the agents it is to have, then what the operator says. */
function withAgents(config: Config): Config {
  if (config.sandboxAgents.length === 0) return config;
  const agents = setupScript(config.sandboxAgents);
  return { ...config, setup: config.setup === undefined ? agents : `${agents}\n${config.setup}` };
}
