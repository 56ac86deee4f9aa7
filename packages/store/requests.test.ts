import { BatchGetItemCommand, type DynamoDBClient, QueryCommand } from "@aws-sdk/client-dynamodb";
import type { Store } from "@concierge/core";
import { physicalName } from "@concierge/dev";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Engine, startDynalite } from "../../test/testing/dynamodb.ts";
import { createDynamoStore } from "./dynamo.ts";
import { createFixture, manualClock } from "./testing/contract/fixture.ts";

const tasks = 3000;
/** Simulates DynamoDB's page of one megabyte, which is more index entries than the test has. */
const page = 500;

let engine: Engine;
let store: Store;
let sent: string[];
const clock = manualClock();
const on = createFixture(() => ({ store, ...clock, close: async () => {} }));
const due = clock.now();

beforeAll(async () => {
  engine = await startDynalite();
  const client = counting(engine.client);
  store = createDynamoStore({ client, tableName: physicalName("Table"), clock });
  sent = [];
  const ended = { status: "succeeded", endedAt: 1, result: null } as const;
  for (let made = 0; made < tasks; made += 50) {
    // The oldest task is the running one.
    const batch = Array.from({ length: 50 }, (_, i) => {
      clock.advance(1);
      const isFirst = made + i === 0;
      const state = isFirst ? ({ status: "running", commandId: "c" } as const) : ended;
      return on.aTask({
        userId: "alice",
        sessionKey: isFirst ? "first" : "rest",
        state,
        dueAt: due + made + i,
      });
    });
    await Promise.all(batch.map((task) => store.createTask(task)));
  }
}, 120_000);
afterAll(async () => await engine?.close());
beforeEach(() => {
  sent = [];
});

/** Counts requests, and limits pages that have no limit. */
function counting({ send }: DynamoDBClient): DynamoDBClient {
  const { client } = engine;
  const counted = async (command: { input: object }) => {
    sent.push(command.constructor.name);
    if (command instanceof QueryCommand) command.input.Limit ??= page;
    return await (send as (command: object) => Promise<object>).call(client, command);
  };
  return { send: counted } as unknown as DynamoDBClient;
}

describe("listing one of 3,000 tasks", () => {
  it.each([
    ["by status", { status: "running" }],
    ["by session", { sessionKey: "first" }],
    ["by both", { status: "running", sessionKey: "first" }],
  ] as const)(
    "takes few requests a page %s, and a cursor goes on to what it looks for",
    async (_by, filter) => {
      const found: string[] = [];
      let pages = 0;
      let after: string | undefined;
      do {
        sent = [];
        const listed = await store.listTasks("alice", { limit: 20, ...filter, ...(after && { after }) });
        expect(sent.length).toBeLessThanOrEqual(5);
        found.push(...listed.items.map(({ state }) => state.status));
        after = listed.next;
        pages += 1;
      } while (after);
      expect(found).toEqual(["running"]);
      expect(pages).toBe(2);
    },
  );

  it("takes two requests without a filter", async () => {
    const { items, next } = await store.listTasks("alice", { limit: 50 });
    expect(items).toHaveLength(50);
    expect(next).toBeDefined();
    expect(sent).toEqual([QueryCommand.name, BatchGetItemCommand.name]);
  });

  it("stops at the first page with enough matches", async () => {
    const { items, next } = await store.listTasks("alice", { limit: 20, status: "succeeded" });
    expect(items).toHaveLength(20);
    expect(next).toBeDefined();
    expect(sent).toEqual([QueryCommand.name, BatchGetItemCommand.name]);
  });
});

describe("listing due tasks", () => {
  it("takes one request per shard, independent of how much is due, and skips nothing", async () => {
    const first = await store.listDueTasks(due + tasks, 1000);
    expect(sent).toEqual(Array.from({ length: 4 }, () => QueryCommand.name));
    expect(first).toHaveLength(1000);
    expect(new Set(first.map(({ id }) => id)).size).toBe(1000);
    expect(new Set(first.map(({ userId }) => userId))).toEqual(new Set(["alice"]));
  });

  it("takes as few requests if one task is due", async () => {
    expect(await store.listDueTasks(due, 1000)).toHaveLength(1);
    expect(sent).toHaveLength(4);
  });

  it("returns the next tasks after the first ones have moved", async () => {
    const next = async () => (await store.listDueTasks(due + tasks, 100)).map(({ id }) => id);
    const first = await next();
    const guard = { turn: 1, status: ["succeeded", "running"] } as const;
    for (const id of first) await store.changeTask(id, guard, { set: { dueAt: due * 2 } });
    const second = await next();
    expect(second).toHaveLength(100);
    expect(second.filter((id) => first.includes(id))).toEqual([]);
    // Ids sort by time, like the due times here.
    expect(first.every((id) => second.every((later) => id < later))).toBe(true);
  });
});
