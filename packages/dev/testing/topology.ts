import type { FunctionDefinition, Topology } from "../../../infra/topology.ts";

const definition = {
  timeoutMs: 20_000,
  memoryMb: 128,
  environment: ["FIXTURE_NOTES", "FIXTURE_GIVEN", "CONCIERGE_URL", "CONCIERGE_STAGE"],
  secrets: [],
  grants: [],
} satisfies Omit<FunctionDefinition, "handler">;

export const table: Topology["table"] = {
  Table: {
    fields: { pk: "string", sk: "string", owner: "string", dueAt: "number" },
    primaryIndex: { hash: "pk", range: "sk" },
    indexes: { owner: { hash: "owner", range: "dueAt", projection: "all" } },
    ttlField: "ttl",
  },
};

export const queue = {
  delayMs: 0,
  visibilityTimeoutMs: 30_000,
  maxReceives: 3,
  retentionMs: 3_600_000,
  deadLetterRetentionMs: 3_600_000,
};

export const http: FunctionDefinition = {
  ...definition,
  handler: "packages/dev/testing/app.handler",
  http: "stream",
  secrets: ["AdminApiKey", "SealingKey"],
  grants: [
    { on: "Table/index/owner", actions: ["dynamodb:Query"] },
    { on: "Jobs", actions: ["sqs:SendMessage"] },
  ],
  assets: { FIXTURE_ASSET: "packages/dev/testing/notes.ts" },
};

export function worker(source: { batchSize?: number; maxConcurrency?: number } = {}): FunctionDefinition {
  return {
    ...definition,
    handler: "packages/dev/testing/queue.handler",
    grants: [{ on: "Jobs", actions: ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"] }],
    sources: [{ queue: "Jobs", batchSize: 1, maxConcurrency: 5, partialResponses: true, ...source }],
  };
}

export const scheduled: FunctionDefinition = {
  ...definition,
  handler: "packages/dev/testing/scheduled.handler",
  scheduleEveryMs: 60_000,
};

/** One of each kind, as small as possible. */
export function fixtureTopology(functions: Record<string, FunctionDefinition> = {}): Topology {
  return { table, queues: { Jobs: queue, Other: queue }, functions: { Api: http, ...functions } };
}
