import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { SQSRecord } from "aws-lambda";
import { expect, test } from "vitest";
import type { LocalStackOptions } from "../index.ts";
import { clientConfig } from "../stack/aws.ts";
import { startFixture, until } from "../testing/stack.ts";
import { fixtureTopology, queue, worker } from "../testing/topology.ts";

type Note =
  | { at: "start"; pid: number; concurrent: number; records: SQSRecord[] }
  | { at: "end"; bodies: string[] }
  | { at: "late"; outcome: string };

async function startWorker(
  source: { batchSize?: number; maxConcurrency?: number } = {},
  options: Partial<LocalStackOptions> & { timeoutMs?: number } = {},
) {
  const { timeoutMs = 20_000, ...rest } = options;
  const topology = fixtureTopology({ Worker: { ...worker(source), timeoutMs } });
  const stack = await startFixture({ topology, ...rest });
  const client = new SQSClient(clientConfig(stack.endpoints.sqs, stack.credentials));
  return {
    ...stack,
    send: (MessageBody: string, more = {}) =>
      client.send(new SendMessageCommand({ QueueUrl: stack.queueUrls.Jobs, MessageBody, ...more })),
    /** Messages that are visible and in flight. */
    async counts(name: string) {
      const { Attributes = {} } = await client.send(
        new GetQueueAttributesCommand({ QueueUrl: stack.queueUrls[name], AttributeNames: ["All"] }),
      );
      return [Attributes.ApproximateNumberOfMessages, Attributes.ApproximateNumberOfMessagesNotVisible].map(
        Number,
      );
    },
    async starts() {
      const notes = await stack.notes<Note>();
      return notes.filter((note) => note.at === "start");
    },
    /** The results of calls after the timeout. */
    async late() {
      const notes = await stack.notes<Note>();
      return notes.flatMap((note) => (note.at === "late" ? note.outcome : []));
    },
    async ended() {
      const notes = await stack.notes<Note>();
      return notes.flatMap((note) => (note.at === "end" ? note.bodies : []));
    },
  };
}

type Worker = Awaited<ReturnType<typeof startWorker>>;

const isEmpty = (stack: Worker, name = "Jobs") =>
  until(async () => (await stack.counts(name)).join() === "0,0", `${name} is empty`);

const starts = (stack: Worker, count: number) =>
  until(async () => {
    const found = await stack.starts();
    return found.length >= count && found;
  }, `${count} invocations`);

test("a message is delivered as an SQS event and deleted", async () => {
  await using stack = await startWorker();
  const before = Date.now();
  const { MessageId } = await stack.send("hello", {
    MessageAttributes: {
      text: { DataType: "String", StringValue: "t" },
      bytes: { DataType: "Binary", BinaryValue: new Uint8Array([1, 2]) },
    },
  });
  const [first] = await starts(stack, 1);
  expect(first?.records).toEqual([
    {
      messageId: MessageId,
      receiptHandle: expect.any(String),
      body: "hello",
      attributes: {
        ApproximateReceiveCount: "1",
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
        SenderId: expect.any(String),
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
      },
      messageAttributes: {
        text: { stringValue: "t", stringListValues: [], binaryListValues: [], dataType: "String" },
        bytes: { binaryValue: "AQI=", stringListValues: [], binaryListValues: [], dataType: "Binary" },
      },
      md5OfBody: "5d41402abc4b2a76b9719d911017c592",
      eventSource: "aws:sqs",
      eventSourceARN: "arn:aws:sqs:us-east-1:000000000000:concierge-dev-Jobs",
      awsRegion: "us-east-1",
    },
  ]);
  expect(Number(first?.records[0]?.attributes.SentTimestamp)).toBeGreaterThanOrEqual(before);
  await isEmpty(stack);
});

test("only failed messages of a batch are delivered again, and end in the dead-letter queue", async () => {
  await using stack = await startWorker({ batchSize: 10, maxConcurrency: 1 });
  await Promise.all(["a", "fail", "b"].map((body) => stack.send(body)));
  await until(async () => (await stack.counts("JobsDlq"))[0] === 1, "one message in the dead-letter queue");
  await isEmpty(stack);
  const bodies = (await stack.starts()).flatMap(({ records }) => records.map(({ body }) => body));
  expect(bodies.filter((body) => body === "fail")).toHaveLength(queue.maxReceives);
  expect(bodies.filter((body) => body !== "fail").sort()).toEqual(["a", "b"]);
});

test.each(["throw", "nonsense"])(
  "a batch whose handler answers with %s is retried as a whole",
  async (body) => {
    await using stack = await startWorker();
    await stack.send(body);
    await until(async () => (await stack.counts("JobsDlq"))[0] === 1, "the message in the dead-letter queue");
    const counts = (await stack.starts()).map(
      ({ records }) => records[0]?.attributes.ApproximateReceiveCount,
    );
    expect(counts).toEqual(["1", "2", "3"]);
  },
);

test("a message whose process was killed is delivered to another process", async () => {
  await using stack = await startWorker();
  await stack.send("die once");
  const [first, second] = await starts(stack, 2);
  expect(second?.pid).not.toBe(first?.pid);
  expect(second?.records[0]?.attributes.ApproximateReceiveCount).toBe("2");
  await isEmpty(stack);
});

test("an invocation that times out does not affect a concurrent one, and the next gets a new process", async () => {
  await using stack = await startWorker({}, { timeoutMs: 3000 });
  await stack.send("hang once");
  const [hung] = await starts(stack, 1);
  await until(
    async () => Date.now() > Number(hung?.records[0]?.attributes.SentTimestamp) + 1500,
    "a while later",
  );
  await stack.send("hold");
  const [, neighbour] = await starts(stack, 2);
  expect(neighbour?.pid).toBe(hung?.pid);
  await until(() => stack.log.some((line) => line.includes("timed out after 3000 ms")), "the timeout");
  await writeFile(`${stack.notesFile}.open`, "");
  await until(async () => (await stack.ended()).includes("hold"), "the neighbour's end");
  const again = await starts(stack, 3);
  expect(again.at(-1)?.pid).not.toBe(hung?.pid);
  await until(() => !stack.processes().some(({ pid }) => pid === hung?.pid), "the late process is gone");
  await isEmpty(stack);
});

test("an invocation that timed out changes nothing more while its process still runs", async () => {
  let heard = 0;
  const world = createServer((_request, response) => response.end(String(++heard)));
  world.listen(0, "127.0.0.1");
  await once(world, "listening");
  const { port } = world.address() as AddressInfo;
  await using stack = await startWorker({}, { timeoutMs: 3000, env: { FIXTURE_GIVEN: String(port) } });
  await stack.send("late once");
  const [late] = await starts(stack, 1);
  await until(
    async () => Date.now() > Number(late?.records[0]?.attributes.SentTimestamp) + 1500,
    "a while later",
  );
  await stack.send("hold");
  await starts(stack, 2);
  await until(() => stack.log.some((line) => line.includes("timed out after 3000 ms")), "the timeout");
  await writeFile(`${stack.notesFile}.late`, "");
  await until(async () => (await stack.late()).length === 2, "the calls of the late invocation");
  expect(await stack.late()).toEqual(["LateError", "LateError"]);
  expect(heard).toBe(0);
  await writeFile(`${stack.notesFile}.open`, "");
  await isEmpty(stack);
  world.close();
});

test("concurrency is limited by the source", async () => {
  await using stack = await startWorker({ maxConcurrency: 3 });
  await Promise.all(Array.from({ length: 12 }, () => stack.send("hold")));
  await starts(stack, 3);
  // The others are received already, so that the next one can be chosen fairly.
  await until(async () => (await stack.counts("Jobs")).join() === "0,12", "all are received");
  expect(await stack.starts()).toHaveLength(3);
  await writeFile(`${stack.notesFile}.open`, "");
  await isEmpty(stack);
  const all = await stack.starts();
  expect(all).toHaveLength(12);
  expect(Math.max(...all.map(({ concurrent }) => concurrent))).toBe(3);
});

test("another user's message does not wait behind a backlog", async () => {
  await using stack = await startWorker({ maxConcurrency: 2 });
  const of = (user: string) => ({
    MessageGroupId: user,
    MessageAttributes: { userId: { DataType: "String", StringValue: user } },
  });
  await Promise.all(Array.from({ length: 30 }, () => stack.send("hold", of("alice"))));
  await until(async () => (await stack.counts("Jobs")).join() === "0,30", "all are received");
  await stack.send("hold", of("bob"));
  await until(async () => (await stack.counts("Jobs")).join() === "0,31", "bob's is received");
  await writeFile(`${stack.notesFile}.open`, "");
  await isEmpty(stack);
  const groups = (await stack.starts()).flatMap(({ records }) =>
    records.map(({ messageAttributes }) => messageAttributes.userId?.stringValue),
  );
  // Two of alice's were running already.
  expect(groups.indexOf("bob")).toBe(2);
});

test("the stack's options override a queue's visibility timeout", async () => {
  await using stack = await startWorker({}, { visibilityTimeoutMs: { Jobs: 1000 }, retryDelayMs: 30_000 });
  await stack.send("hold");
  await starts(stack, 2);
  await writeFile(`${stack.notesFile}.open`, "");
  await isEmpty(stack);
});
