import { readFileSync } from "node:fs";
import { type AttributeValue, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { unmarshall } from "@aws-sdk/util-dynamodb";
import { type Store, statuses, type Task } from "@concierge/core";
import { physicalName } from "@concierge/dev";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, startDynalite } from "../../test/testing/dynamodb.ts";
import { createDynamoStore } from "./dynamo.ts";
import { SchemaVersionError, schemaVersion } from "./version.ts";

type RawItem = Record<string, AttributeValue>;

/** A table as version 1 left it: one task in each status, with its sessions and records. */
const before: RawItem[] = JSON.parse(
  readFileSync(new URL("./testing/items-v1.json", import.meta.url), "utf8"),
  (key, value) => (key === "B" ? Buffer.from(value, "base64") : value),
);
const user = "user-1";
const recordedAt = Date.parse("2026-11-01T00:10:00Z");
const clock = { now: () => recordedAt, sleep: async () => {} };
const TableName = physicalName("Table");

let engine: Engine;
let store: Store;

beforeAll(async () => {
  engine = await startDynalite();
  store = createDynamoStore({ client: engine.client, tableName: TableName, clock });
});
afterAll(() => engine.close());

async function write(items: readonly RawItem[]): Promise<void> {
  for (const Item of items) await engine.client.send(new PutItemCommand({ TableName, Item }));
}

async function rawTask(id: string) {
  const Key = { pk: { S: `TASK#${id}` }, sk: { S: "TASK" } };
  const { Item = {} } = await engine.client.send(
    new GetItemCommand({ TableName, Key, ConsistentRead: true }),
  );
  return unmarshall(Item);
}

async function tasks(): Promise<Task[]> {
  return (await store.listTasks(user, { limit: 50 })).items;
}

async function taskThatIs(status: Task["state"]["status"]): Promise<Task> {
  const found = (await tasks()).find(({ state }) => state.status === status);
  if (!found) throw new Error(`no task is ${status}`);
  return found;
}

describe("items of an earlier version", () => {
  beforeAll(() => write(before));

  it("are read in every status of a task and every state of a sandbox", async () => {
    const found = await tasks();
    expect(new Set(found.map(({ state }) => state.status))).toEqual(new Set(statuses));
    const { items: sessions } = await store.listSessions(user, { limit: 50 });
    expect(new Set(sessions.map(({ sandbox }) => sandbox?.state))).toEqual(
      new Set(["ready", "releasing", undefined]),
    );
    // Numbered slots of version 1 no longer count. The reaper writes the missing ones.
    expect(await store.listSlots()).toEqual([]);
    expect(await store.getFlags()).toEqual({ ENABLE_HEALTH_PROBE: "50%" });
    expect((await store.listKeys({ limit: 10 })).items).toHaveLength(1);
    expect(await store.listUsage("2026-11-01")).toHaveLength(1);
    // Version 1 listed claimed sandboxes. They must not be offered again.
    expect(await store.listWarm()).toEqual([]);
  });

  it("keep their output and prompts", async () => {
    const { id, turn } = await taskThatIs("succeeded");
    const { records } = await store.readRecords(id, { turn: 1, kind: "progress", seq: 0 }, turn);
    const said = records.flatMap((record) =>
      record.kind === "output"
        ? record.chunks.flatMap((chunk) => ("data" in chunk ? [Buffer.from(chunk.data).toString()] : []))
        : [],
    );
    expect(said).toEqual(["said\n", "said\n"]);
    expect(await store.readPrompts(id, 2)).toEqual([{ turn: 1, prompt: "echo succeeded" }]);
  });

  it("get the current version when they are written", async () => {
    const { id } = await taskThatIs("running");
    expect((await rawTask(id)).schema).toBeUndefined();
    const outcome = await store.changeTask(
      id,
      { turn: 1, status: ["running"] },
      { set: { lastActivityAt: recordedAt } },
    );
    expect(outcome.won).toBe(true);
    expect((await rawTask(id)).schema).toBe(schemaVersion);
  });
});

describe("items of the next version", () => {
  const later = before.map((item) => ({
    ...withUnknownFields(item),
    schema: { N: String(schemaVersion + 1) },
  }));

  beforeAll(() => write(later));

  it("are read without their unknown fields", async () => {
    const read = await Promise.all((await tasks()).map(({ id }) => store.getTask(id)));
    expect(read.length).toBeGreaterThan(8);
    expect(JSON.stringify(read)).not.toContain("later");
    expect((await store.listSessions(user, { limit: 50 })).items.length).toBeGreaterThan(5);
  });

  it("keep their unknown fields when this version writes them", async () => {
    const { id } = await taskThatIs("queued");
    const outcome = await store.changeTask(
      id,
      { turn: 1, status: ["queued"] },
      {
        set: { state: { status: "provisioning", claim: { id: "c", until: 1 } } },
        phase: { turn: 1, status: "provisioning", at: recordedAt, by: "worker" },
      },
    );
    expect(outcome.won).toBe(true);
    expect(await rawTask(id)).toMatchObject({ later: "known later", limits: { later: "known later" } });
  });
});

it("an item two versions ahead is refused with instructions", async () => {
  const [item] = before.filter(({ sk }) => sk?.S === "TASK");
  const id = item?.id?.S ?? "";
  await write([{ ...item, schema: { N: String(schemaVersion + 2) } }]);
  await expect(store.getTask(id)).rejects.toThrow(SchemaVersionError);
  await expect(store.getTask(id)).rejects.toThrow(`has schema version ${schemaVersion + 2}`);
});

/** The item with one more field in every map, as a later version could write it. */
function withUnknownFields(item: RawItem): RawItem {
  const more = (value: AttributeValue, name: string): AttributeValue => {
    if (value.M) return { M: dictionaries.has(name) ? value.M : withUnknownFields(value.M) };
    if (value.L) return { L: value.L.map((element) => more(element, name)) };
    return value;
  };
  const known = Object.entries(item).map(([name, value]) => [name, more(value, name)]);
  return { ...Object.fromEntries(known), later: { S: "known later" } };
}

/** Maps whose names are data. */
const dictionaries: ReadonlySet<string> = new Set(["steps", "metadata", "versions", "flags"]);
