import { setTimeout as sleep } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { createId, type Store, type Task, type Timers } from "@concierge/core";
import { clientConfig } from "@concierge/dev";
import { createTimers } from "@concierge/queue";
import { createDynamoStore } from "@concierge/store";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { type Benchmark, type Figure, percentile } from "./harness.ts";

const timers = 1000;
const spreadMs = 10_000;
/** Time to write and arm them all before the first is due. */
const leadMs = 20_000;
const abreast = 8;
const farOffMs = 3_600_000;

export const timersBenchmark: Benchmark = {
  name: "timers",
  about: `how late ${timers} deadlines within ${spreadMs / 1000} s are, against a bare receiver of the same queue engine`,
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: farOffMs });
    const { endpoints, tableName } = concierge;
    using sqs = disposable(new SQSClient(clientConfig(endpoints.sqs, concierge.credentials)));
    using dynamodb = disposable(new DynamoDBClient(clientConfig(endpoints.dynamodb, concierge.credentials)));
    const clock = { now: () => Date.now(), sleep: async (ms: number) => void (await sleep(ms)) };
    const store = createDynamoStore({ client: dynamodb.client, tableName, clock });
    // The same fractions of a second for both: the queue's delays are whole seconds, rounded up.
    const dueIn = Array.from({ length: timers }, () => leadMs + Math.floor(Math.random() * spreadMs));

    const bare = await withBareReceiver(concierge, sqs.client, dueIn);
    const ours = await withConcierge(concierge, sqs.client, store, dueIn);

    const figure = (what: string, percent: number): Figure => ({
      what: `late by, ${what}`,
      unit: "ms",
      value: percentile(ours, percent),
      baseline: { what: "SQS receive alone", value: percentile(bare, percent) },
    });
    return [
      figure("p50", 50),
      { ...figure("p99", 99), target: { of: "value", atMost: 1500 } },
      figure("max", 100),
    ];
  },
};

/** The real Timer function ends tasks that no worker has claimed, so there is nothing to kill. */
async function withConcierge(
  { userId, queueUrls }: Concierge,
  client: SQSClient,
  store: Store,
  dueIn: readonly number[],
): Promise<number[]> {
  const now = Date.now();
  const tasks = dueIn.map((ms, at) => aQueuedTask(userId, `bench-${at}`, now, now + ms));
  await eachOf(tasks, async (task) => void (await store.createTask(task)));
  const armed = createTimers({ client, queueUrl: queueUrls.TimerQueue ?? "" });
  await arm(
    armed,
    tasks.map(({ id, deadlineAt }) => ({ id, deadlineAt })),
  );

  await sleep(now + leadMs + spreadMs + 1000 - Date.now());
  const lateMs: number[] = [];
  await eachOf(tasks, async ({ id, deadlineAt }) => {
    for (;;) {
      const state = (await store.getTask(id))?.state;
      if (state?.status === "timed_out") return void lateMs.push(state.endedAt - deadlineAt);
      if (Date.now() > deadlineAt + 60_000) throw new Error(`${id} is still ${state?.status}`);
      await sleep(250);
    }
  });
  return lateMs;
}

async function withBareReceiver(
  { queueUrls }: Concierge,
  client: SQSClient,
  dueIn: readonly number[],
): Promise<number[]> {
  const QueueName = "bench-bare";
  await client.send(new CreateQueueCommand({ QueueName }));
  const queueUrl = new URL(QueueName, queueUrls.TimerQueue).href;
  const now = Date.now();
  const deadlines = new Map(dueIn.map((ms, at) => [`task-${at}`, now + ms]));
  await arm(
    createTimers({ client, queueUrl }),
    [...deadlines].map(([id, deadlineAt]) => ({ id, deadlineAt })),
  );

  const lateMs: number[] = [];
  const removals: Promise<unknown>[] = [];
  while (lateMs.length < deadlines.size) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20 }),
    );
    const receivedAt = Date.now();
    for (const { Body = "" } of Messages) {
      const { taskId } = JSON.parse(Body) as { taskId: string };
      lateMs.push(receivedAt - (deadlines.get(taskId) ?? Number.NaN));
    }
    if (Messages.length > 0) removals.push(remove(client, queueUrl, Messages));
  }
  await Promise.all(removals);
  return lateMs;
}

async function arm(queue: Timers, due: readonly { id: string; deadlineAt: number }[]): Promise<void> {
  await eachOf(due, async ({ id, deadlineAt }) => {
    await queue.arm({ kind: "deadline", taskId: id, turn: 1 }, deadlineAt - Date.now());
  });
  if (Date.now() > Math.min(...due.map(({ deadlineAt }) => deadlineAt)))
    throw new Error("the first timer was due before the last was armed: this machine is too busy");
}

async function remove(client: SQSClient, QueueUrl: string, messages: readonly Message[]): Promise<void> {
  const Entries = messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
  await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
}

async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: abreast }, async () => {
      for (const item of left) await work(item);
    }),
  );
}

function aQueuedTask(userId: string, sessionKey: string, now: number, deadlineAt: number): Task {
  return {
    id: createId("task", now),
    userId,
    sessionKey,
    agent: "shell",
    prompt: "true",
    keepAlive: true,
    limits: { maxDurationMs: deadlineAt - now, inactivityMs: farOffMs },
    metadata: {},
    turn: 1,
    state: { status: "queued" },
    createdAt: now,
    deadlineAt,
    lastActivityAt: now,
    outputSeq: 0,
    past: [],
    phases: [{ turn: 1, status: "queued", at: now, by: "api" }],
    phaseCount: 1,
    notices: [],
    // Far off, so that the reaper stays out of it.
    dueAt: now + farOffMs,
    expiresAt: now + farOffMs,
  };
}

function disposable<T extends { destroy(): void }>(client: T) {
  return { client, [Symbol.dispose]: () => client.destroy() };
}
