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

interface SenderOptions {
  client: SQSClient;
  /** Of the work that sends: it goes with the message, so that logs find what belongs together. */
  requestId?: () => string | undefined;
}

interface QueueOptions extends SenderOptions {
  queueUrl: string;
}

interface WorkQueueOptions extends QueueOptions {
  /** Where webhooks go: a receiver that hangs must not keep a worker from somebody's turn. */
  webhookQueueUrl: string;
}

/** A URL is read when it is sent to: a function may know only the queues that it may send to. */
export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  return {
    send: (message, delayMs = 0) => {
      const queueUrl = message.kind === "webhook" ? options.webhookQueueUrl : options.queueUrl;
      return send(options, queueUrl, message, delayMs);
    },
  };
}

/** A wait that is longer than the queue can hold is made of hops: a timer that comes early is armed again. */
export function createTimers(options: QueueOptions): Timers {
  return { arm: (timer, delayMs) => send(options, options.queueUrl, timer, delayMs) };
}

async function send(
  { client, requestId }: SenderOptions,
  queueUrl: string,
  message: object,
  delayMs: number,
): Promise<void> {
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

/** Beside the message, not in it: its readers need not know of it. */
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

const webhookMessageSchema = z.object({
  kind: z.literal("webhook"),
  ...turn,
  event: webhookEventSchema,
  attempt: z.optional(z.int()),
});

/** One schema for each kind there is: a kind without one does not compile. */
const workMessageSchemas = {
  provision: z.object({ kind: z.literal("provision"), ...turn, attempt: z.optional(z.int()) }),
  prepare: z.object({ kind: z.literal("prepare"), ...session, attempt: z.optional(z.int()) }),
  environment: z.object({ kind: z.literal("environment"), ...session, epoch: z.int().check(z.positive()) }),
  ended: z.object({ kind: z.literal("ended"), ...turn }),
  release: z.object({ kind: z.literal("release"), ...session, epoch: z.int().check(z.positive()) }),
  base: z.object({ kind: z.literal("base"), asked: z.optional(z.boolean()) }),
  warm: z.object({ kind: z.literal("warm") }),
  webhook: webhookMessageSchema,
} satisfies Record<WorkMessage["kind"], z.ZodMiniType>;

const { provision, prepare, environment, ended, release, base, warm, webhook } = workMessageSchemas;
/** Fields that are not known here are dropped: the version after this one may send more. */
const workMessageSchema = z.discriminatedUnion("kind", [
  provision,
  prepare,
  environment,
  ended,
  release,
  base,
  warm,
  webhook,
  /** The version before this one sent it when a turn had ended. */
  z.pipe(
    z.object({ kind: z.literal("usage"), ...turn }),
    z.transform(({ taskId, turn: of }) => ({ kind: "ended" as const, taskId, turn: of })),
  ),
]);

export function parseWorkMessage(body: string): WorkMessage {
  return workMessageSchema.parse(JSON.parse(body)) as WorkMessage;
}

export type WebhookMessage = Extract<WorkMessage, { kind: "webhook" }>;

export function parseWebhookMessage(body: string): WebhookMessage {
  return webhookMessageSchema.parse(JSON.parse(body)) as WebhookMessage;
}

const timerSchema = z.object({
  kind: z.enum(timerKinds),
  taskId: z.string(),
  turn: z.int().check(z.positive()),
});

export function parseTimer(body: string): Timer {
  return timerSchema.parse(JSON.parse(body));
}
