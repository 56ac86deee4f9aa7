/** Creates the topology's queues in the SQS engine, each with its dead-letter queue. */
import { CreateQueueCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { Queue, Topology } from "../../../infra/topology.ts";
import { accountId, arn, type Credentials, clientConfig, physicalName } from "../stack/aws.ts";

export async function createQueues(
  endpoint: string,
  topology: Topology,
  credentials: Credentials,
): Promise<void> {
  const client = new SQSClient(clientConfig(endpoint, credentials));
  try {
    await Promise.all(
      Object.entries(topology.queues).map(([name, queue]) => createQueue(client, name, queue)),
    );
  } finally {
    client.destroy();
  }
}

/** The engine's own URLs use a host under `.localhost`, which not every resolver knows. */
export function queueUrl(endpoint: string, name: string): string {
  return `${endpoint}/${accountId}/${physicalName(name)}`;
}

export function deadLetterQueue(name: string): string {
  return `${name}Dlq`;
}

async function createQueue(client: SQSClient, name: string, queue: Queue): Promise<void> {
  const dlq = physicalName(deadLetterQueue(name));
  const Attributes = { MessageRetentionPeriod: seconds(queue.deadLetterRetentionMs) };
  await client.send(new CreateQueueCommand({ QueueName: dlq, Attributes }));
  await client.send(
    new CreateQueueCommand({
      QueueName: physicalName(name),
      Attributes: {
        MessageRetentionPeriod: seconds(queue.retentionMs),
        DelaySeconds: seconds(queue.delayMs),
        VisibilityTimeout: seconds(queue.visibilityTimeoutMs),
        RedrivePolicy: JSON.stringify({
          deadLetterTargetArn: arn("sqs", dlq),
          maxReceiveCount: queue.maxReceives,
        }),
      },
    }),
  );
}

function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000));
}
