import { setTimeout as delay } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import {
  type Clock,
  createId,
  createSealer,
  type Deps,
  parseConfig,
  type SealingDeps,
} from "@concierge/core";
import { createWorkQueue } from "@concierge/queue";
import { createDynamoStore } from "@concierge/store";
import { Resource } from "sst";

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    delay(ms, undefined, signal && { signal }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    }),
};

/** What every function's verbs are given, from the environment and from `Resource` alone. */
export function composeDeps(): Deps {
  return {
    config: parseConfig(process.env),
    clock,
    ids: {
      task: () => createId("task", clock.now()),
      key: () => createId("key", clock.now()),
      claim: () => createId("claim", clock.now()),
    },
    store: createDynamoStore({ client: new DynamoDBClient(), tableName: Resource.Table.name, clock }),
    work: createWorkQueue({ client: new SQSClient(), queueUrl: Resource.WorkQueue.url }),
  };
}

export function composeSealingDeps(): SealingDeps {
  return { ...composeDeps(), sealer: createSealer(Resource.SealingKey.value) };
}
