/** Stands in for an SQS event source mapping: receives messages, invokes the function, deletes what succeeded. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import type { SQSEvent, SQSMessageAttribute, SQSRecord } from "aws-lambda";
import type { QueueSource } from "../../../infra/topology.ts";
import type { FunctionPool } from "../lambda/function-pool.ts";
import { arn, awsRegion, type Credentials, clientConfig, physicalName } from "../stack/aws.ts";
import { failedMessages } from "./batch-response.ts";
import { createFairBuffer, type Grouped } from "./fair.ts";
import { queueUrl } from "./queues.ts";

/** SQS's limit for one receive. */
const maxReceivedMessages = 10;
const longPollSeconds = 20;
const retryReceiveMs = 500;
/** How many messages are received ahead of free invocations. */
const buffered = 500;

interface Received extends Grouped {
  message: Message;
}

export interface SqsAccess {
  endpoint: string;
  /** The function's. On AWS, too, the service polls with its role. */
  own: Credentials;
  /** For calls that are made only in development. */
  host: Credentials;
}

export interface QueueSourceOptions {
  source: QueueSource;
  pool: FunctionPool;
  sqs: SqsAccess;
  /** When a failed message becomes visible again. AWS waits for the visibility timeout. */
  retryDelayMs: number;
  log: (line: string) => void;
}

export function startQueueSource({ source, pool, sqs, retryDelayMs, log }: QueueSourceOptions) {
  const client = new SQSClient(clientConfig(sqs.endpoint, sqs.own));
  const asHost = new SQSClient(clientConfig(sqs.endpoint, sqs.host));
  const QueueUrl = queueUrl(sqs.endpoint, source.queue);
  const stopping = new AbortController();
  const batches = new Set<Promise<void>>();
  const buffer = createFairBuffer<Received>();
  const finished = poll();

  return {
    function: pool.name,
    source,
    /** Receives no more messages. Resolves when those in flight are done or the pool is stopped. */
    async stop(): Promise<void> {
      stopping.abort();
      await finished;
      await Promise.all(batches);
      client.destroy();
      asHost.destroy();
    },
  };

  async function poll(): Promise<void> {
    let isChecked = false;
    while (!stopping.signal.aborted) {
      try {
        // Lambda reads a queue's attributes before it polls; the grants must allow it.
        if (!isChecked) await client.send(new GetQueueAttributesCommand({ QueueUrl }));
        isChecked = true;
        // Each receive counts towards the dead-letter queue. Do not receive without a process to invoke.
        await pool.whenReady();
        await receive();
        if (batches.size >= source.maxConcurrency && buffer.size >= buffered) await Promise.race(batches);
      } catch (error) {
        if (stopping.signal.aborted) return;
        log(`${source.queue}: ${String(error)}`);
        await sleep(retryReceiveMs, undefined, { signal: stopping.signal }).catch(() => {});
      }
    }
  }

  /**
   * Receives ahead of what can be handled, to choose fairly between users: SQS's fair queues do the same on AWS. If the
   * stack ends meanwhile, the messages in the buffer become visible again after their visibility timeout.
   */
  async function receive(): Promise<void> {
    const command = new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: maxReceivedMessages,
      WaitTimeSeconds: longPollSeconds,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    });
    const { Messages = [] } = await client.send(command, { abortSignal: stopping.signal });
    for (const message of Messages) buffer.add({ message, group: groupOf(message) });
    dispatch();
  }

  /** Starts as many invocations as are free. */
  function dispatch(): void {
    while (!stopping.signal.aborted && batches.size < source.maxConcurrency) {
      const taken = buffer.take(source.batchSize);
      if (taken.length === 0) return;
      const batch = deliver(taken.map(({ message }) => message));
      batches.add(batch);
      void batch.finally(() => {
        batches.delete(batch);
        buffer.done(taken);
        dispatch();
      });
    }
  }

  /** Never rejects. A message that is not deleted becomes visible again. */
  async function deliver(messages: Message[]): Promise<void> {
    const ids = messages.map(({ MessageId = "" }) => MessageId);
    const failed = new Set(await invoke(messages, ids));
    try {
      await remove(messages.filter(({ MessageId = "" }) => !failed.has(MessageId)));
      await showAgainSoon(messages.filter(({ MessageId = "" }) => failed.has(MessageId)));
    } catch (error) {
      if (!stopping.signal.aborted) log(`${source.queue}: ${String(error)}`);
    }
  }

  async function invoke(messages: Message[], ids: string[]): Promise<readonly string[]> {
    try {
      const event: SQSEvent = { Records: messages.map((message) => record(source.queue, message)) };
      const answer = await pool.invokeForResult(JSON.stringify(event));
      return source.partialResponses ? failedMessages(answer, ids) : [];
    } catch (error) {
      if (!stopping.signal.aborted) log(`${source.queue}: ${String(error)}`);
      return ids;
    }
  }

  async function remove(messages: Message[]): Promise<void> {
    if (messages.length === 0) return;
    await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries: entries(messages) }));
  }

  /** Only in development. On AWS a failed message stays hidden until its visibility timeout. */
  async function showAgainSoon(messages: Message[]): Promise<void> {
    if (messages.length === 0 || stopping.signal.aborted) return;
    const VisibilityTimeout = Math.ceil(retryDelayMs / 1000);
    const Entries = entries(messages).map((entry) => ({ ...entry, VisibilityTimeout }));
    await asHost.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
  }
}

/** The engine does not keep the group of a standard queue's message, so senders name the user in an attribute too. */
function groupOf({ Attributes, MessageAttributes }: Message): string {
  return Attributes?.MessageGroupId ?? MessageAttributes?.userId?.StringValue ?? "";
}

function entries(messages: Message[]) {
  return messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
}

function record(queue: string, message: Message): SQSRecord {
  const attributes = Object.entries(message.MessageAttributes ?? {});
  return {
    messageId: message.MessageId ?? "",
    receiptHandle: message.ReceiptHandle ?? "",
    body: message.Body ?? "",
    attributes: { ...message.Attributes } as unknown as SQSRecord["attributes"],
    messageAttributes: Object.fromEntries(attributes.map(([name, value]) => [name, attribute(value)])),
    md5OfBody: message.MD5OfBody ?? "",
    eventSource: "aws:sqs",
    eventSourceARN: arn("sqs", physicalName(queue)),
    awsRegion: awsRegion,
  };
}

function attribute({ DataType, StringValue, BinaryValue }: MessageAttributeValue): SQSMessageAttribute {
  return {
    ...(StringValue !== undefined && { stringValue: StringValue }),
    ...(BinaryValue !== undefined && { binaryValue: Buffer.from(BinaryValue).toString("base64") }),
    stringListValues: [],
    binaryListValues: [],
    dataType: DataType ?? "String",
  };
}
