import { type Queue, topology } from "./topology.ts";

// A link only has the queue's URL. Permissions come from the grants.
sst.Linkable.wrap(sst.aws.Queue, (queue) => ({ properties: { url: queue.url } }));

const pairs = Object.entries(topology.queues).map(([name, queue]) => createQueue(name, queue));

export const queues = Object.fromEntries(pairs.map(({ name, queue }) => [name, queue]));
export const deadLetterQueues = Object.fromEntries(pairs.map(({ name, dlq }) => [name, dlq]));

function createQueue(name: string, definition: Queue) {
  const dlq = new sst.aws.Queue(`${name}Dlq`, {
    transform: { queue: kept(definition.deadLetterRetentionMs) },
  });
  const queue = new sst.aws.Queue(name, {
    delay: duration(definition.delayMs),
    visibilityTimeout: duration(definition.visibilityTimeoutMs),
    dlq: { queue: dlq.arn, retry: definition.maxReceives },
    transform: { queue: kept(definition.retentionMs) },
  });
  return { name, queue, dlq };
}

function kept(retentionMs: number) {
  return { messageRetentionSeconds: Math.ceil(retentionMs / 1000), sqsManagedSseEnabled: true };
}

function duration(ms: number) {
  return `${Math.ceil(ms / 1000)} seconds` as const;
}
