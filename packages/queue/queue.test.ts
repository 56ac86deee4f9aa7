import { CreateQueueCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { WebhookEvent, WorkMessage } from "@concierge/core";
import { buildApp } from "fauxqs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createTimers,
  createWorkQueue,
  parseTimer,
  parseWebhookMessage,
  parseWorkMessage,
  requestIdOf,
} from "./index.ts";

/** The real SDK, over the wire, to the engine that `npm run dev` embeds. */
const engine = buildApp({ logger: false });
let client: SQSClient;
let endpoint: string;
let queues = 0;

beforeAll(async () => {
  endpoint = await engine.listen({ port: 0, host: "127.0.0.1" });
  client = new SQSClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "local", secretAccessKey: "local" },
  });
});
afterAll(async () => {
  client.destroy();
  await engine.close();
});

async function aQueue(): Promise<string> {
  const QueueName = `queue-${++queues}`;
  await client.send(new CreateQueueCommand({ QueueName }));
  return `${endpoint}/000000000000/${QueueName}`;
}

async function receive(QueueUrl: string, WaitTimeSeconds = 0): Promise<string[]> {
  const input = { QueueUrl, WaitTimeSeconds, MaxNumberOfMessages: 10 };
  const { Messages = [] } = await client.send(new ReceiveMessageCommand(input));
  return Messages.map(({ Body = "" }) => Body);
}

describe("the request's id", () => {
  const timer = { kind: "deadline", taskId: "task_1", turn: 1 } as const;

  /** The attributes of the first message, as an event source hands them on. */
  async function attributes(QueueUrl: string) {
    const input = { QueueUrl, MessageAttributeNames: ["All"] };
    const { Messages = [] } = await client.send(new ReceiveMessageCommand(input));
    const found = Object.entries(Messages[0]?.MessageAttributes ?? {});
    return Object.fromEntries(found.map(([name, { StringValue }]) => [name, { stringValue: StringValue }]));
  }

  it("goes with a message, beside it", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl, requestId: () => "request-1" }).arm(timer, 0);
    expect(requestIdOf({ messageAttributes: await attributes(queueUrl) })).toBe("request-1");
  });

  it.each([undefined, () => undefined])("needs not be there: %o", async (requestId) => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl, ...(requestId && { requestId }) }).arm(timer, 0);
    expect(await attributes(queueUrl)).toEqual({});
    expect(requestIdOf({ messageAttributes: {} })).toBeUndefined();
  });
});

const event: WebhookEvent = {
  type: "task.stopped",
  timestamp: "2026-11-01T12:00:00.000Z",
  data: {
    taskId: "task_1",
    turn: 1,
    status: "stopped",
    sessionKey: "k",
    result: null,
    error: null,
    usage: { inputTokens: 0, outputTokens: 0, costUsd: 0 },
    metadata: {},
  },
};

describe("the work queue", () => {
  it.each([
    { kind: "provision", taskId: "task_1", turn: 2 },
    { kind: "release", userId: "u", sessionKey: "k", epoch: 3 },
  ] as const)("carries %o", async (message) => {
    const queueUrl = await aQueue();
    const webhookQueueUrl = await aQueue();
    await createWorkQueue({ client, queueUrl, webhookQueueUrl }).send(message);
    const [body = ""] = await receive(queueUrl);
    expect(parseWorkMessage(body)).toEqual(message);
    expect(await receive(webhookQueueUrl)).toEqual([]);
  });

  it("sends webhooks to a queue of their own, and asks for no other then", async () => {
    const webhookQueueUrl = await aQueue();
    const work = createWorkQueue({
      client,
      webhookQueueUrl,
      get queueUrl(): string {
        throw new Error("this function may not send to the work queue");
      },
    });
    await work.send({ kind: "webhook", taskId: "task_1", turn: 1, event, attempt: 2 });
    const [body = ""] = await receive(webhookQueueUrl);
    const message = { kind: "webhook", taskId: "task_1", turn: 1, event, attempt: 2 };
    expect(parseWebhookMessage(body)).toEqual(message);
    expect(parseWorkMessage(body)).toEqual(message);
    expect(() => parseWebhookMessage('{"kind":"provision","taskId":"t","turn":1}')).toThrow();
  });

  it.each(["", "{", "{}", '{"kind":"dance"}', '{"kind":"provision","taskId":"t"}'])(
    "takes no %j for a message",
    (body) => {
      expect(() => parseWorkMessage(body)).toThrow();
    },
  );

  const ofEachKind: { [Kind in WorkMessage["kind"]]: Extract<WorkMessage, { kind: Kind }> } = {
    provision: { kind: "provision", taskId: "t", turn: 1, attempt: 2 },
    prepare: { kind: "prepare", userId: "u", sessionKey: "s", attempt: 1 },
    environment: { kind: "environment", userId: "u", sessionKey: "s", epoch: 1 },
    ended: { kind: "ended", taskId: "t", turn: 3 },
    release: { kind: "release", userId: "u", sessionKey: "s", epoch: 2 },
    base: { kind: "base", asked: true },
    warm: { kind: "warm" },
    webhook: { kind: "webhook", taskId: "t", turn: 1, event },
  };

  it.each(Object.values(ofEachKind))("of kind $kind are read as they were sent", (message) => {
    expect(parseWorkMessage(JSON.stringify(message))).toEqual(message);
  });

  it("of the version before, which asked for usage to be counted, ask for what follows an end", () => {
    const old = { kind: "usage", taskId: "t", turn: 2, userId: "u", counters: { turns: 1 } };
    expect(parseWorkMessage(JSON.stringify(old))).toEqual({ kind: "ended", taskId: "t", turn: 2 });
  });

  it("of a version that says more are taken for what is known of them", () => {
    const message = { kind: "provision", taskId: "t", turn: 1 };
    expect(parseWorkMessage(JSON.stringify({ ...message, later: 1 }))).toEqual(message);
  });
});

describe("timers", () => {
  const timer = { kind: "deadline", taskId: "task_1", turn: 1 } as const;

  it("carry which turn they are for, and nothing that could go stale", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 0);
    const [body = ""] = await receive(queueUrl);
    expect(JSON.parse(body)).toEqual(timer);
    expect(parseTimer(body)).toEqual(timer);
    expect(() => parseTimer('{"kind":"alarm","taskId":"t","turn":1}')).toThrow();
  });

  it("come no earlier than they were armed for, rounded up to a second", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 1);
    expect(await receive(queueUrl)).toEqual([]);
    expect(await receive(queueUrl, 5)).toHaveLength(1);
  });

  it("that are overdue come at once", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, -5000);
    expect(await receive(queueUrl)).toHaveLength(1);
  });

  it("of hours are armed for as long as the queue can wait: the engine takes them, and they hop", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 24 * 3_600_000);
    expect(await receive(queueUrl)).toEqual([]);
  });
});
