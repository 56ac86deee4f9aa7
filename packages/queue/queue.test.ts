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

/** The real SDK against the engine that `npm run dev` embeds. */
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

describe("the request id", () => {
  const timer = { kind: "deadline", taskId: "task_1", turn: 1 } as const;

  /** The attributes of the first message, as Lambda passes them on. */
  async function attributes(QueueUrl: string) {
    const input = { QueueUrl, MessageAttributeNames: ["All"] };
    const { Messages = [] } = await client.send(new ReceiveMessageCommand(input));
    const found = Object.entries(Messages[0]?.MessageAttributes ?? {});
    return Object.fromEntries(found.map(([name, { StringValue }]) => [name, { stringValue: StringValue }]));
  }

  it("is sent as a message attribute", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl, requestId: () => "request-1" }).arm(timer, 0);
    expect(requestIdOf({ messageAttributes: await attributes(queueUrl) })).toBe("request-1");
  });

  it("is sent with the user, in whose group the message is", async () => {
    const queueUrl = await aQueue();
    const work = createWorkQueue({ client, queueUrl, webhookQueueUrl: "", requestId: () => "request-1" });
    let group: string | undefined;
    client.middlewareStack.add(
      (next) => (args) => {
        group = (args.input as { MessageGroupId?: string }).MessageGroupId;
        return next(args);
      },
      { name: "group" },
    );
    await work.send({ kind: "provision", taskId: "task_1", turn: 1 }, 0, "bob@example.org");
    client.middlewareStack.remove("group");
    expect(group).toBe("bob@example.org");
    expect(await attributes(queueUrl)).toEqual({
      requestId: { stringValue: "request-1" },
      userId: { stringValue: "bob@example.org" },
    });
  });

  it.each([undefined, () => undefined])("is optional: %o", async (requestId) => {
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
  ] as const)("delivers %o", async (message) => {
    const queueUrl = await aQueue();
    const webhookQueueUrl = await aQueue();
    await createWorkQueue({ client, queueUrl, webhookQueueUrl }).send(message);
    const [body = ""] = await receive(queueUrl);
    expect(parseWorkMessage(body)).toEqual(message);
    expect(await receive(webhookQueueUrl)).toEqual([]);
  });

  it("sends webhooks to their own queue without reading the other URL", async () => {
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

  it.each(["", "{", "{}", '{"kind":"dance"}', '{"kind":"provision","taskId":"t"}'])("rejects %j", (body) => {
    expect(() => parseWorkMessage(body)).toThrow();
  });

  const ofEachKind: { [Kind in WorkMessage["kind"]]: Extract<WorkMessage, { kind: Kind }> } = {
    provision: { kind: "provision", taskId: "t", turn: 1, attempt: 2 },
    prepare: { kind: "prepare", userId: "u", sessionKey: "s", attempt: 1 },
    environment: { kind: "environment", userId: "u", sessionKey: "s", epoch: 1 },
    ended: { kind: "ended", taskId: "t", turn: 3 },
    release: { kind: "release", userId: "u", sessionKey: "s", epoch: 2 },
    forget: { kind: "forget", userId: "u" },
    base: { kind: "base", asked: true },
    warm: { kind: "warm" },
    webhook: { kind: "webhook", taskId: "t", turn: 1, event },
  };

  it.each(Object.values(ofEachKind))("parses a message of kind $kind as it was sent", (message) => {
    expect(parseWorkMessage(JSON.stringify(message))).toEqual(message);
  });

  it("parses `usage` of the previous version as `ended`", () => {
    const old = { kind: "usage", taskId: "t", turn: 2, userId: "u", counters: { turns: 1 } };
    expect(parseWorkMessage(JSON.stringify(old))).toEqual({ kind: "ended", taskId: "t", turn: 2 });
  });

  it("drops fields that a newer version added", () => {
    const message = { kind: "provision", taskId: "t", turn: 1 };
    expect(parseWorkMessage(JSON.stringify({ ...message, later: 1 }))).toEqual(message);
  });
});

describe("timers", () => {
  const timer = { kind: "deadline", taskId: "task_1", turn: 1 } as const;

  it("carry only the turn, so nothing in them can be stale", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 0);
    const [body = ""] = await receive(queueUrl);
    expect(JSON.parse(body)).toEqual(timer);
    expect(parseTimer(body)).toEqual(timer);
    expect(() => parseTimer('{"kind":"alarm","taskId":"t","turn":1}')).toThrow();
  });

  it("arrive no earlier than armed, rounded up to a second", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 1);
    expect(await receive(queueUrl)).toEqual([]);
    expect(await receive(queueUrl, 5)).toHaveLength(1);
  });

  it("arrive at once if they are overdue", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, -5000);
    expect(await receive(queueUrl)).toHaveLength(1);
  });

  it("use the queue's longest delay if they are hours away", async () => {
    const queueUrl = await aQueue();
    await createTimers({ client, queueUrl }).arm(timer, 24 * 3_600_000);
    expect(await receive(queueUrl)).toEqual([]);
  });
});
