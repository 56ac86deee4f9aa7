import { createHash } from "node:crypto";
import {
  type Base,
  baseSchema,
  type EventRecord,
  type Key,
  keySchema,
  type PromptPosition,
  type RecordPosition,
  type Session,
  type Slot,
  sessionSchema,
  slotSchema,
  type Task,
  taskSchema,
  type WarmSandbox,
  warmSchema,
} from "@concierge/core";
import { assertReadable } from "./version.ts";

/** What an item has beside its fields: its keys, its places in the indexes, and when the table may drop it. */
const housekeeping = ["pk", "sk", "owner", "ownedAt", "dueShard", "status", "ttl", "schema"] as const;

export type Item = Record<string, unknown>;

const shards = 4;

/** What is due, by kind. Sessions that no turn has stand apart, so that the least recently used is found by one look. */
export type DueKind = "TASK" | "SESSION" | "IDLE";

export const keyOf = {
  task: (id: string) => ({ pk: `TASK#${id}`, sk: "TASK" }),
  record: (taskId: string, position: RecordPosition) => ({ pk: `TASK#${taskId}`, sk: recordSort(position) }),
  prompt: (taskId: string, { turn, key }: PromptPosition) => ({
    pk: `TASK#${taskId}`,
    sk: `PROMPT#${digits(turn, 6)}${key === undefined ? "" : `#${key}`}`,
  }),
  session: (userId: string, key: string) => ({ pk: `SESSION#${userId}#${key}`, sk: "SESSION" }),
  key: (id: string) => ({ pk: `KEY#${id}`, sk: "KEY" }),
  warm: (name: string) => ({ pk: `WARM#${name}`, sk: "WARM" }),
  /** All in one partition, so that one consistent query sees them all. */
  slot: (name: string) => ({ pk: slotsPartition, sk: `${slotPrefix}${name}` }),
  usage: (day: string, userId: string) => ({ pk: usagePartition(day), sk: `${usagePrefix}${userId}` }),
  base: { pk: "BASE", sk: "BASE" },
  flags: { pk: "FLAGS", sk: "FLAGS" },
  reapCursor: { pk: "REAP", sk: "CURSOR" },
  idempotency: (scope: string) => ({ pk: `IDEMPOTENCY#${scope}`, sk: "IDEMPOTENCY" }),
} as const;

export const slotsPartition = "SLOTS";
/** Slots before version 3 had numbers (`SLOT#`); they count no more, and the reaper writes those that are missing. */
export const slotPrefix = "NAME#";
export const usagePartition = (day: string) => `USAGE#${day}`;
export const usagePrefix = "USER#";

export const ownerOf = {
  tasks: (userId: string) => `TASKS#${userId}`,
  sessions: (userId: string) => `SESSIONS#${userId}`,
  keys: "KEYS",
  warm: "WARM",
} as const;

export function taskItem(task: Task): Item {
  return {
    ...task,
    ...keyOf.task(task.id),
    owner: ownerOf.tasks(task.userId),
    ownedAt: task.id,
    status: task.state.status,
    ...(task.dueAt !== undefined && { dueShard: dueShardOf("TASK", task.id) }),
    ttl: ttlOf(task.expiresAt),
  };
}

export function keyItem(key: Key): Item {
  return { ...key, ...keyOf.key(key.id), owner: ownerOf.keys, ownedAt: key.id };
}

export function recordItem(taskId: string, record: EventRecord, expiresAt: number): Item {
  return { ...record, ...keyOf.record(taskId, record), expiresAt, ttl: ttlOf(expiresAt) };
}

export function warmItem(warm: WarmSandbox): Item & { pk: string; sk: string } {
  const { name, createdAt, expiresAt, state } = warm;
  const listed = { owner: ownerOf.warm, ownedAt: ownedSince(createdAt, name) };
  // A claimed one leaves the list: looking for one to claim costs what there is to claim.
  return { ...warm, ...keyOf.warm(name), ...(state !== "claimed" && listed), ttl: ttlOf(expiresAt) };
}

/** A place in a list that is ordered by time, for what has no id that is. */
export function ownedSince(at: number, name: string): string {
  return `${digits(at, 15)}#${name}`;
}

/** An item of any version that can be understood here. */
const readAs =
  <T>(schema: { parse(fields: Item): T }) =>
  (item: Item): T => {
    assertReadable(item);
    return schema.parse(fieldsOf(item));
  };

export const readWarm = readAs<WarmSandbox>(warmSchema);
export const readTask = readAs<Task>(taskSchema);
export const readSession = readAs<Session>(sessionSchema);
export const readSlot = readAs<Slot>(slotSchema);
export const readBase = readAs<Base>(baseSchema);
export const readKey = readAs<Key>(keySchema);

/** Records are many and large, and only ever written here: they are not parsed again. */
export const readRecord = (item: Item): EventRecord => fieldsOf(item) as unknown as EventRecord;

/** Spreads what is due over a few partitions, each for itself in order. */
export function dueShardOf(kind: DueKind, id: string): string {
  const [byte = 0] = createHash("sha256").update(id).digest();
  return `${kind}#${byte % shards}`;
}

export function dueShardsOf(kind: DueKind): string[] {
  return Array.from({ length: shards }, (_, i) => `${kind}#${i}`);
}

export function ttlOf(expiresAt: number): number {
  return Math.ceil(expiresAt / 1000);
}

/** Ids by the keys that an index has of them. */
export function taskIdOf({ pk }: Item): string {
  return String(pk).slice("TASK#".length);
}

export function sessionNameOf({ pk }: Item): { userId: string; key: string } {
  const [, userId = "", key = ""] = String(pk).split("#");
  return { userId, key };
}

/** A turn's progress stands before its output, and numbers sort as numbers do. */
function recordSort({ turn, kind, seq }: RecordPosition): string {
  return `RECORD#${digits(turn, 6)}#${kind === "progress" ? 0 : 1}#${digits(seq, 15)}`;
}

export function recordSortBehind(turn: number): string {
  return `RECORD#${digits(turn, 6)}#2`;
}

function digits(n: number, width: number): string {
  return String(n).padStart(width, "0");
}

function fieldsOf(item: Item): Item {
  const fields = { ...item };
  for (const name of housekeeping) delete fields[name];
  return fields;
}
