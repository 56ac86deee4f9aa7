import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import type { Timers, WorkQueue } from "@concierge/core";

const delayMaxSeconds = 900;
const requestIdAttribute = "requestId";
/** The message group again: the local engine does not keep the group of a standard queue's message. */
const userAttribute = "userId";
const traceparentAttribute = "traceparent";

type Received = { messageAttributes: Readonly<Record<string, { stringValue?: string | undefined }>> };

interface SenderOptions {
  client: SQSClient;
  /** The id of the current request. It is sent with each message, so that logs can be correlated. */
  requestId?: () => string | undefined;
  /** The W3C trace context of the sender. It is sent with each message, so that its receiver continues the trace. */
  traceparent?: () => string | undefined;
}

interface QueueOptions extends SenderOptions {
  queueUrl: string;
}

interface WorkQueueOptions extends QueueOptions {
  /** Webhooks have their own queue, so that a receiver that hangs does not block workers. */
  webhookQueueUrl: string;
}

/** The `WorkQueue` on SQS. Reads only the URL of the queue it sends to, because a function may not know the others. */
export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  return {
    send: (message, delayMs = 0, userId) => {
      const queueUrl = message.kind === "webhook" ? options.webhookQueueUrl : options.queueUrl;
      return send(options, queueUrl, message, delayMs, userId);
    },
  };
}

/** `Timers` on SQS. A timer beyond the queue's longest delay arrives early; its handler arms it again. */
export function createTimers(options: QueueOptions): Timers {
  return { arm: (timer, delayMs) => send(options, options.queueUrl, timer, delayMs) };
}

/** The request id of a received message. */
export function requestIdOf({ messageAttributes }: Received): string | undefined {
  return messageAttributes[requestIdAttribute]?.stringValue;
}

/** The trace context of a received message. */
export function traceparentOf({ messageAttributes }: Received): string | undefined {
  return messageAttributes[traceparentAttribute]?.stringValue;
}

async function send(
  { client, requestId, traceparent }: SenderOptions,
  queueUrl: string,
  message: object,
  delayMs: number,
  userId?: string,
): Promise<void> {
  // SQS delays by whole seconds. Rounded up, so that no message arrives early.
  const seconds = Math.max(Math.ceil(delayMs / 1000), 0);
  await client.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: JSON.stringify(message),
      DelaySeconds: Math.min(seconds, delayMaxSeconds),
      // On a standard queue this makes SQS take turns between users ("fair queues"); it does not order messages.
      ...(userId !== undefined && { MessageGroupId: userId }),
      ...attributesOf({
        [requestIdAttribute]: requestId?.(),
        [traceparentAttribute]: traceparent?.(),
        [userAttribute]: userId,
      }),
    }),
  );
}

/** Attributes beside the body, so that message schemas do not contain them. */
function attributesOf(values: Readonly<Record<string, string | undefined>>) {
  const known = Object.entries(values).flatMap(([name, StringValue]) =>
    StringValue ? [[name, { DataType: "String", StringValue }] as const] : [],
  );
  return known.length > 0 ? { MessageAttributes: Object.fromEntries(known) } : {};
}
