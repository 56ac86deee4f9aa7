import { BatchGetItemCommand, type DynamoDBClient, QueryCommand } from "@aws-sdk/client-dynamodb";
import type { Store } from "@concierge/core";
import { physicalName } from "@concierge/local";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Engine, startDynalite } from "../../test/fixtures/dynamodb.ts";
import { createFixture, manualClock } from "./contract/fixture.ts";
import { createDynamoStore } from "./dynamo.ts";

const tasks = 3000;
/** A megabyte of index entries, which DynamoDB reads for one request, is more than the test has: so many stand for it. */
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
    // The oldest of all is the one that runs.
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

/** Counts requests, and cuts pages that a limit does not cut. */
function counting({ send }: DynamoDBClient): DynamoDBClient {
  const { client } = engine;
  const counted = async (command: { input: object }) => {
    sent.push(command.constructor.name);
    if (command instanceof QueryCommand) command.input.Limit ??= page;
    return await (send as (command: object) => Promise<object>).call(client, command);
  };
  return { send: counted } as unknown as DynamoDBClient;
}

describe("a list of one in 3,000", () => {
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

  it("takes two requests where nothing is looked for", async () => {
    const { items, next } = await store.listTasks("alice", { limit: 50 });
    expect(items).toHaveLength(50);
    expect(next).toBeDefined();
    expect(sent).toEqual([QueryCommand.name, BatchGetItemCommand.name]);
  });

  it("stops at the first page with enough of them", async () => {
    const { items, next } = await store.listTasks("alice", { limit: 20, status: "succeeded" });
    expect(items).toHaveLength(20);
    expect(next).toBeDefined();
    expect(sent).toEqual([QueryCommand.name, BatchGetItemCommand.name]);
  });
});

describe("what is due", () => {
  it("takes a request for each shard, however much is due, and nothing that is due is passed over", async () => {
    const first = await store.listDueTasks(due + tasks, 1000);
    expect(sent).toEqual(Array.from({ length: 4 }, () => QueryCommand.name));
    expect(first).toHaveLength(1000);
    expect(new Set(first.map(({ id }) => id)).size).toBe(1000);
    expect(new Set(first.map(({ userId }) => userId))).toEqual(new Set(["alice"]));
  });

  it("takes as few where one is due", async () => {
    expect(await store.listDueTasks(due, 1000)).toHaveLength(1);
    expect(sent).toHaveLength(4);
  });

  it("goes on with the next once the first have moved", async () => {
    const next = async () => (await store.listDueTasks(due + tasks, 100)).map(({ id }) => id);
    const first = await next();
    const guard = { turn: 1, status: ["succeeded", "running"] } as const;
    for (const id of first) await store.changeTask(id, guard, { set: { dueAt: due * 2 } });
    const second = await next();
    expect(second).toHaveLength(100);
    expect(second.filter((id) => first.includes(id))).toEqual([]);
    // Ids sort by time, as their due times here do.
    expect(first.every((id) => second.every((later) => id < later))).toBe(true);
  });
});
