import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import type { WorkMessage, WorkQueue } from "@concierge/core";
import { z } from "zod";

/** SQS takes no more, and only whole seconds: a delay is rounded up, so that nothing comes too early. */
const delayMaxSeconds = 900;

export function createWorkQueue({ client, queueUrl }: { client: SQSClient; queueUrl: string }): WorkQueue {
  return {
    async send(message, delayMs = 0) {
      await client.send(
        new SendMessageCommand({
          QueueUrl: queueUrl,
          MessageBody: JSON.stringify(message),
          DelaySeconds: Math.min(Math.ceil(delayMs / 1000), delayMaxSeconds),
        }),
      );
    },
  };
}

const workMessageSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("provision"), taskId: z.string(), turn: z.int().positive() }),
  z.strictObject({
    kind: z.literal("release"),
    userId: z.string(),
    sessionKey: z.string(),
    epoch: z.int().positive(),
  }),
]);

export function parseWorkMessage(body: string): WorkMessage {
  return workMessageSchema.parse(JSON.parse(body));
}
