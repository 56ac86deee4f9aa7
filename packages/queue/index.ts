import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import {
  type Timer,
  type Timers,
  timerKinds,
  type WorkMessage,
  type WorkQueue,
  webhookEventSchema,
} from "@concierge/core";
import * as z from "zod/mini";

/** SQS takes no more, and only whole seconds: a delay is rounded up, so that nothing comes too early. */
const delayMaxSeconds = 900;

interface QueueOptions {
  client: SQSClient;
  queueUrl: string;
  /** Of the work that sends: it goes with the message, so that logs find what belongs together. */
  requestId?: () => string | undefined;
}

export function createWorkQueue(options: QueueOptions): WorkQueue {
  return { send: (message, delayMs = 0) => send(options, message, delayMs) };
}

/** A wait that is longer than the queue can hold is made of hops: a timer that comes early is armed again. */
export function createTimers(options: QueueOptions): Timers {
  return { arm: (timer, delayMs) => send(options, timer, delayMs) };
}

async function send(options: QueueOptions, message: object, delayMs: number): Promise<void> {
  const { client, queueUrl, requestId } = options;
  const seconds = Math.max(Math.ceil(delayMs / 1000), 0);
  await client.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: JSON.stringify(message),
      DelaySeconds: Math.min(seconds, delayMaxSeconds),
      ...attributesOf(requestId?.()),
    }),
  );
}

const requestIdAttribute = "requestId";

/** Beside the message, not in it: whoever reads it needs not know of it. */
function attributesOf(requestId: string | undefined) {
  if (!requestId) return {};
  return {
    MessageAttributes: { [requestIdAttribute]: { DataType: "String", StringValue: requestId } },
  };
}

export function requestIdOf(record: {
  messageAttributes: Readonly<Record<string, { stringValue?: string | undefined }>>;
}): string | undefined {
  return record.messageAttributes[requestIdAttribute]?.stringValue;
}

const turn = { taskId: z.string(), turn: z.int().check(z.positive()) };
const session = { userId: z.string(), sessionKey: z.string() };

/** What is not known here is dropped: the version after this one may say more. */
const workMessageSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("provision"), ...turn, attempt: z.optional(z.int()) }),
  z.object({ kind: z.literal("prepare"), ...session, attempt: z.optional(z.int()) }),
  z.object({ kind: z.literal("environment"), ...session, epoch: z.int().check(z.positive()) }),
  z.object({
    kind: z.literal("usage"),
    ...turn,
    userId: z.string(),
    counters: z.record(z.string(), z.number()),
  }),
  z.object({ kind: z.literal("release"), ...session, epoch: z.int().check(z.positive()) }),
  z.object({ kind: z.literal("base"), asked: z.optional(z.boolean()) }),
  z.object({
    kind: z.literal("webhook"),
    ...turn,
    event: webhookEventSchema,
    attempt: z.optional(z.int()),
  }),
]);

export function parseWorkMessage(body: string): WorkMessage {
  return workMessageSchema.parse(JSON.parse(body)) as WorkMessage;
}

const timerSchema = z.object({
  kind: z.enum(timerKinds),
  taskId: z.string(),
  turn: z.int().check(z.positive()),
});

export function parseTimer(body: string): Timer {
  return timerSchema.parse(JSON.parse(body));
}
