import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  type Counters,
  type Flags,
  type HourCounters,
  type IdempotencyRecord,
  isUnclaimed,
  type Key,
  type Outcome,
  type PromptPosition,
  type Store,
  type UsageRecord,
} from "@concierge/core";
import {
  all,
  isAbsent,
  isAbsentOrExpired,
  isNotDeleted,
  isOfSession,
  isSessionOf,
  isThere,
  isWarm,
  mayHaveStatus,
  sessionAllows,
  taskAllows,
  versionIs,
} from "./conditions.ts";
import { createUserStore } from "./dynamo-users.ts";
import {
  dueShardOf,
  hourPrefix,
  type Item,
  keyItem,
  keyOf,
  measuresPartitions,
  ownedSince,
  ownerOf,
  readBase,
  readKey,
  readRecord,
  readSession,
  readSlot,
  readTask,
  readWarm,
  recordItem,
  recordSortBehind,
  sessionNameOf,
  shardOf,
  slotPrefix,
  slotsPartition,
  taskIdOf,
  taskItem,
  ttlOf,
  usagePartition,
  usagePrefix,
  warmItem,
} from "./items.ts";
import { createTable } from "./table.ts";
import type { UpdateParts } from "./update.ts";

/** More than any configured pool. */
const warmMax = 1000;

const keyPagesMax = 20;

/** The `Store` on one DynamoDB table. A lost condition is an outcome, not an error. */
export function createDynamoStore(options: {
  client: DynamoDBClient;
  tableName: string;
  clock: Clock;
}): Store {
  const { clock } = options;
  const table = createTable(options);

  return {
    ...createUserStore({ table, clock }),

    async getTask(id) {
      const item = await table.get(keyOf.task(id));
      return item && readTask(item);
    },

    async createTask(task) {
      return mapOutcome(await table.put({ ...taskItem(task), ...keyOf.task(task.id) }, isAbsent), readTask);
    },

    async changeTask(id, guard, { set = {}, remove = [], phase, notice }) {
      const parts: UpdateParts = {
        set: {
          ...set,
          ...(set.state && { status: set.state.status }),
          ...(set.dueAt !== undefined && { dueShard: dueShardOf("TASK", id) }),
          ...(set.expiresAt !== undefined && { ttl: ttlOf(set.expiresAt) }),
        },
        append: { ...(phase && { phases: phase }), ...(notice && { notices: notice }) },
        ...(phase && { add: { phaseCount: 1 } }),
        remove: withShard(remove),
      };
      return mapOutcome(await table.update(keyOf.task(id), parts, taskAllows(guard, clock.now())), readTask);
    },

    async listTasks(userId, { limit, after, status, sessionKey }) {
      const filters = [
        ...(status ? [mayHaveStatus(status)] : []),
        ...(sessionKey ? [isOfSession(sessionKey)] : []),
      ];
      const page = await table.listOwned(ownerOf.tasks(userId), {
        limit,
        ...(after !== undefined && { after: { ...keyOf.task(after), ownedAt: after } }),
        ...(filters.length > 0 && { filter: all(filters) }),
      });
      const tasks = page.items.map(readTask);
      const items = tasks.filter(({ state }) => status === undefined || state.status === status);
      return { items, next: page.next };
    },

    async listDueTasks(now, limit) {
      const due = await table.listDue(["TASK"], now, limit);
      return due.map((item) => ({ id: taskIdOf(item), userId: String(item.userId) }));
    },

    async listDueSessions(now, limit) {
      return (await table.listDue(["SESSION", "IDLE"], now, limit)).map(sessionNameOf);
    },

    async listIdleSessions(limit, userId) {
      const ofUser = userId === undefined ? undefined : isSessionOf(userId);
      return (await table.listDue(["IDLE"], Number.MAX_SAFE_INTEGER, limit, ofUser)).map(sessionNameOf);
    },

    async putRecord(taskId, record, expiresAt) {
      await table.put(
        { ...recordItem(taskId, record, expiresAt), ...keyOf.record(taskId, record) },
        isAbsent,
      );
    },

    async putPrompt(taskId, position, prompt, expiresAt) {
      const item = { ...position, prompt, expiresAt, ttl: ttlOf(expiresAt) };
      await table.putUnconditionally({ ...item, ...keyOf.prompt(taskId, position) });
    },

    async getPrompt(taskId, position) {
      const item = await table.get(keyOf.prompt(taskId, position));
      return item && String(item.prompt);
    },

    async readPrompts(taskId, beforeTurn) {
      const to = keyOf.prompt(taskId, { turn: beforeTurn, key: undefined }).sk;
      const prompts: (PromptPosition & { prompt: string })[] = [];
      for (let { pk, sk } = keyOf.prompt(taskId, { turn: 0, key: undefined }); ; ) {
        const page = await table.readRange(pk, sk, to);
        const read = page.items.map(({ turn, key, prompt }) => ({
          turn: Number(turn),
          key: key === undefined ? undefined : String(key),
          prompt: String(prompt),
        }));
        prompts.push(...read.filter(({ turn }) => turn < beforeTurn));
        const last = page.items.at(-1);
        if (!page.more || !last) return prompts;
        // The smallest possible key after the last one.
        sk = `${String(last.sk)} `;
      }
    },

    async readRecords(taskId, from, toTurn) {
      const { pk, sk } = keyOf.record(taskId, from);
      const { items, more } = await table.readRange(pk, sk, recordSortBehind(toTurn));
      return { records: items.map(readRecord), more };
    },

    async getSession(userId, key) {
      const item = await table.get(keyOf.session(userId, key));
      return item && readSession(item);
    },

    async changeSession(userId, key, guard, { set = {}, remove = [] }) {
      const now = clock.now();
      const parts: UpdateParts = {
        set: {
          ...set,
          ...(set.dueAt !== undefined && {
            dueShard: dueShardOf(set.isIdle ? "IDLE" : "SESSION", `${userId}#${key}`),
          }),
          ...(set.expiresAt !== undefined && { ttl: ttlOf(set.expiresAt) }),
        },
        // Every other guard fails for a missing session, so only this one can create it.
        ...(guard.lease === null &&
          guard.epoch === undefined && {
            setOnce: {
              userId,
              key,
              owner: ownerOf.sessions(userId),
              ownedAt: ownedSince(now, key),
              createdAt: now,
              ...(set.epoch === undefined && { epoch: 0 }),
            },
          }),
        remove: withShard(remove),
      };
      return mapOutcome(
        await table.update(keyOf.session(userId, key), parts, sessionAllows(guard, now)),
        readSession,
      );
    },

    async listSessions(userId, { limit, after }) {
      const page = await table.listOwned(ownerOf.sessions(userId), {
        limit,
        filter: isNotDeleted,
        ...(after !== undefined && { after: indexKeyOf(userId, after) }),
      });
      return { items: page.items.map(readSession), next: page.next };
    },

    async listWarm() {
      return (await table.listOwned(ownerOf.warm, { limit: warmMax })).items
        .map(readWarm)
        .filter(isUnclaimed);
    },

    async getWarm(name) {
      const item = await table.get(keyOf.warm(name));
      return item && readWarm(item);
    },

    async createWarm(warm) {
      return (await table.put(warmItem(warm), isAbsent)).won;
    },

    async changeWarm(name, from, warm) {
      return (await table.put({ ...warmItem(warm), ...keyOf.warm(name) }, isWarm(from))).won;
    },

    async deleteWarm(name, from) {
      return await table.remove(keyOf.warm(name), isWarm(from));
    },

    async listSlots() {
      return (await table.readAll(slotsPartition, slotPrefix)).map(readSlot);
    },

    async putSlot(slot) {
      await table.putUnconditionally({ ...slot, ...keyOf.slot(slot.name) });
    },

    async deleteSlot(name) {
      await table.remove(keyOf.slot(name), isThere);
    },

    async getReapCursor() {
      const cursor = (await table.get(keyOf.reapCursor))?.cursor;
      return cursor === undefined ? undefined : String(cursor);
    },

    async putReapCursor(cursor) {
      await table.putUnconditionally({ ...keyOf.reapCursor, cursor });
    },

    async getBaseSnapshot() {
      const item = await table.get(keyOf.base);
      return item && readBase(item);
    },

    async putBaseSnapshot(base, readVersion) {
      return (await table.put({ ...base, ...keyOf.base }, versionIs(readVersion))).won;
    },

    async addUsage(day, userId, counters, expiresAt, measures) {
      const item = await table.addUp(keyOf.usage(day, userId), {
        set: { day, userId, expiresAt, ttl: ttlOf(expiresAt) },
        add: {
          ...prefixed(counters),
          ...(measures && prefixed(measures.counters, hourlyPrefix(measures.hour))),
        },
      });
      return readUsage(item);
    },

    async getUsage(day, userId) {
      const item = await table.get(keyOf.usage(day, userId));
      return item && readUsage(item);
    },

    async listUsage(day) {
      return (await table.readAll(usagePartition(day), usagePrefix)).map(readUsage);
    },

    async addMeasures(day, { hour, counters }, spread, expiresAt) {
      await table.addUp(keyOf.measures(day, shardOf(spread), hour), {
        set: { hour, expiresAt, ttl: ttlOf(expiresAt) },
        add: prefixed(counters),
      });
    },

    async getMeasures(day, userId) {
      const item = await table.get(keyOf.usage(day, userId));
      return item ? readHours(item) : [];
    },

    async listMeasures(day) {
      const shards = measuresPartitions(day).map((partition) => table.readAll(partition, hourPrefix));
      return (await Promise.all(shards)).flat().map((item) => ({
        hour: String(item.hour),
        counters: countersIn(item, counterPrefix),
      }));
    },

    async getFlags() {
      return ((await table.get(keyOf.flags))?.flags ?? {}) as Flags;
    },

    async putFlags(flags) {
      await table.putUnconditionally({ ...keyOf.flags, flags });
    },

    async getKey(id) {
      const item = await table.get(keyOf.key(id));
      return item && readKey(item);
    },

    async createKey(key) {
      return mapOutcome(await table.put({ ...keyItem(key), ...keyOf.key(key.id) }, isAbsent), readKey);
    },

    async listKeys({ limit, after, userId }) {
      const items: Key[] = [];
      let next = after;
      // The index does not have the user, so one user's keys are filtered here, in a bounded number of requests.
      for (let pages = 0; pages < keyPagesMax; pages++) {
        const from = next === undefined ? {} : { after: { ...keyOf.key(next), ownedAt: next } };
        const page = await table.listOwned(ownerOf.keys, { limit, ...from });
        const found = page.items.map(readKey).filter((key) => userId === undefined || key.userId === userId);
        const left = limit - items.length;
        items.push(...found.slice(0, left));
        if (found.length > left) return { items, next: items.at(-1)?.id };
        next = page.next;
        if (next === undefined || items.length === limit) break;
      }
      return { items, next };
    },

    async changeKey(id, set) {
      const ttl = set.expiresAt === undefined ? {} : { ttl: ttlOf(set.expiresAt) };
      const outcome = await table.update(keyOf.key(id), { set: { ...set, ...ttl } }, isThere);
      return outcome.won;
    },

    async deleteKey(id) {
      return await table.remove(keyOf.key(id), isThere);
    },

    async claimIdempotencyKey(scope, record) {
      const key = keyOf.idempotency(scope);
      const item = { ...record, ...key, ttl: ttlOf(record.expiresAt) };
      return mapOutcome(await table.put(item, isAbsentOrExpired(clock.now())), readIdempotency);
    },
  };
}

function readIdempotency({ requestHash, taskId, turn, expiresAt }: Item): IdempotencyRecord {
  return {
    requestHash: String(requestHash),
    taskId: String(taskId),
    turn: Number(turn),
    expiresAt: Number(expiresAt),
  };
}

/** Keeps counters apart from the item's own attributes. */
const counterPrefix = "n_";

/** The success metrics of an hour, in the item of the user's day. */
const hourlyPrefix = (hour: string) => `h${hour}_`;

function prefixed(counters: Counters, prefix = counterPrefix): Record<string, number> {
  return Object.fromEntries(Object.entries(counters).map(([name, by]) => [prefix + name, by]));
}

function readUsage(item: Item): UsageRecord {
  return {
    day: String(item.day),
    userId: String(item.userId),
    counters: countersIn(item, counterPrefix),
  };
}

function readHours(item: Item): HourCounters[] {
  const hours = new Set(Object.keys(item).flatMap((name) => /^h(\d\d)_/.exec(name)?.[1] ?? []));
  return [...hours].map((hour) => ({ hour, counters: countersIn(item, hourlyPrefix(hour)) }));
}

function countersIn(item: Item, prefix: string): Counters {
  const counted = Object.entries(item).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(counted.map(([name, value]) => [name.slice(prefix.length), Number(value)]));
}

/** The index key of the session that a cursor names. */
function indexKeyOf(userId: string, ownedAt: string) {
  return { ...keyOf.session(userId, ownedAt.slice(ownedAt.indexOf("#") + 1)), ownedAt };
}

/** An item that is no longer due leaves the index with its shard. */
function withShard(remove: readonly string[]): readonly string[] {
  return remove.includes("dueAt") ? [...remove, "dueShard"] : remove;
}

function mapOutcome<T>(outcome: Outcome<Item>, read: (item: Item) => T): Outcome<T> {
  if (outcome.won) return { won: true, item: read(outcome.item) };
  return { won: false, item: outcome.item && read(outcome.item) };
}
