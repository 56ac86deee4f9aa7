import { createHash } from "node:crypto";
import {
  type BaseSnapshot,
  baseSnapshotSchema,
  type EventRecord,
  type HoldKind,
  idTime,
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

/** Attributes that are not fields: keys, index attributes, expiry and version. */
const housekeeping = ["pk", "sk", "owner", "ownedAt", "dueShard", "status", "ttl", "schema"] as const;

export type Item = Record<string, unknown>;

const shards = 4;

/** Idle sessions have their own shards, so that one query finds the least recently used. */
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
  /** In one partition, so that one consistent query reads them all. */
  slot: (name: string) => ({ pk: slotsPartition, sk: `${slotPrefix}${name}` }),
  usage: (day: string, userId: string) => ({ pk: usagePartition(day), sk: `${usagePrefix}${userId}` }),
  measures: (day: string, shard: number, hour: string) => ({
    pk: measuresPartition(day, shard),
    sk: `${hourPrefix}${hour}`,
  }),
  base: { pk: "BASE", sk: "BASE" },
  flags: { pk: "FLAGS", sk: "FLAGS" },
  reapCursor: { pk: "REAP", sk: "CURSOR" },
  userLimits: (userId: string) => ({ pk: userPartition(userId), sk: "LIMITS" }),
  holds: (userId: string, kind: HoldKind) => ({ pk: userPartition(userId), sk: `HOLDS#${kind}` }),
  requests: (userId: string, minute: number) => ({ pk: userPartition(userId), sk: `REQUESTS#${minute}` }),
  webhookSecret: (userId: string) => ({ pk: userPartition(userId), sk: "WEBHOOK" }),
  /** By day, so that no partition grows forever; ids sort by time. */
  audit: (id: string) => ({ pk: auditPartition(idTime(id)), sk: id }),
  deletion: (userId: string) => ({ pk: deletionsPartition, sk: `USER#${userId}` }),
  idempotency: (scope: string) => ({ pk: `IDEMPOTENCY#${scope}`, sk: "IDEMPOTENCY" }),
} as const;

export const slotsPartition = "SLOTS";
/** Slots before version 3 were numbered (`SLOT#`). They no longer count; the reaper writes the missing ones. */
export const slotPrefix = "NAME#";
export const userPartition = (userId: string) => `USER#${userId}`;
export const auditPartition = (at: number) => `AUDIT#${new Date(at).toISOString().slice(0, 10)}`;
export const deletionsPartition = "DELETIONS";
export const usagePartition = (day: string) => `USAGE#${day}`;
export const usagePrefix = "USER#";

/** A day's success metrics over all users, in shards: every ended turn writes to one of them. */
const measuresPartition = (day: string, shard: number) => `MEASURES#${day}#${shard}`;
export const hourPrefix = "HOUR#";

export function measuresPartitions(day: string): string[] {
  return Array.from({ length: shards }, (_, shard) => measuresPartition(day, shard));
}

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
  const { expiresAt } = key;
  const listed = { owner: ownerOf.keys, ownedAt: key.id };
  return {
    ...key,
    ...keyOf.key(key.id),
    ...listed,
    ...(expiresAt !== undefined && { ttl: ttlOf(expiresAt) }),
  };
}

export function recordItem(taskId: string, record: EventRecord, expiresAt: number): Item {
  return { ...record, ...keyOf.record(taskId, record), expiresAt, ttl: ttlOf(expiresAt) };
}

export function warmItem(warm: WarmSandbox): Item & { pk: string; sk: string } {
  const { name, createdAt, expiresAt, state } = warm;
  const listed = { owner: ownerOf.warm, ownedAt: ownedSince(createdAt, name) };
  // A claimed sandbox leaves the index, so that a search reads only what can be claimed.
  return { ...warm, ...keyOf.warm(name), ...(state !== "claimed" && listed), ttl: ttlOf(expiresAt) };
}

/** A sort key by time, for items whose ids do not sort by time. */
export function ownedSince(at: number, name: string): string {
  return `${digits(at, 15)}#${name}`;
}

/** Parses an item of any readable version. */
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
export const readBase = readAs<BaseSnapshot>(baseSnapshotSchema);
export const readKey = readAs<Key>(keySchema);

/** Not parsed by a schema: records are many and large, and only this code writes them. */
export const readRecord = (item: Item): EventRecord => fieldsOf(item) as unknown as EventRecord;

/** Spreads due items over a few index partitions, each ordered by time. */
export function dueShardOf(kind: DueKind, id: string): string {
  return `${kind}#${shardOf(id)}`;
}

export function shardOf(id: string): number {
  const [byte = 0] = createHash("sha256").update(id).digest();
  return byte % shards;
}

export function dueShardsOf(kind: DueKind): string[] {
  return Array.from({ length: shards }, (_, i) => `${kind}#${i}`);
}

export function ttlOf(expiresAt: number): number {
  return Math.ceil(expiresAt / 1000);
}

export function taskIdOf({ pk }: Item): string {
  return String(pk).slice("TASK#".length);
}

export function sessionNameOf({ pk }: Item): { userId: string; key: string } {
  const [, userId = "", key = ""] = String(pk).split("#");
  return { userId, key };
}

/** A turn's progress sorts before its output. Numbers are padded, so that they sort numerically. */
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
