import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  type Clock,
  type Flags,
  type IdempotencyRecord,
  isUnclaimed,
  type Outcome,
  type Page,
  type Session,
  type Store,
  type UsageRecord,
} from "@concierge/core";
import {
  all,
  hasStatus,
  isAbsent,
  isAbsentOrExpired,
  isNotDeleted,
  isOfSession,
  isThere,
  isWarm,
  sessionAllows,
  slotIs,
  taskAllows,
  versionIs,
} from "./conditions.ts";
import {
  dueShardOf,
  type Item,
  keyItem,
  keyOf,
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
  slotsPartition,
  taskItem,
  ttlOf,
  usagePartition,
  warmItem,
} from "./items.ts";
import { createTable } from "./table.ts";
import type { UpdateParts } from "./update.ts";

/** More than a pool may ever be asked to hold. */
const warmMax = 1000;
const holdingMax = 2000;

/** The store on DynamoDB. */
export function createDynamoStore(options: {
  client: DynamoDBClient;
  tableName: string;
  clock: Clock;
}): Store {
  const { clock } = options;
  const table = createTable(options);

  return {
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
        ...(status ? [hasStatus(status)] : []),
        ...(sessionKey ? [isOfSession(sessionKey)] : []),
      ];
      const page = await table.listOwned(ownerOf.tasks(userId), {
        limit,
        ...(after !== undefined && { after: { ...keyOf.task(after), ownedAt: after } }),
        ...(filters.length > 0 && { filter: all(filters) }),
      });
      return pageOf(page, readTask);
    },

    async listDueTasks(now, limit) {
      return (await table.listDue("TASK", now, limit)).map((item) => String(item.id));
    },

    async listDueSessions(now, limit) {
      return (await table.listDue("SESSION", now, limit)).map(({ userId, key }) => ({
        userId: String(userId),
        key: String(key),
      }));
    },

    async putRecord(taskId, record, expiresAt) {
      await table.put(
        { ...recordItem(taskId, record, expiresAt), ...keyOf.record(taskId, record) },
        isAbsent,
      );
    },

    async putPrompt(taskId, turn, prompt, expiresAt) {
      const item = { turn, prompt, expiresAt, ttl: ttlOf(expiresAt) };
      await table.putAnyway({ ...item, ...keyOf.prompt(taskId, turn) });
    },

    async readPrompts(taskId, beforeTurn) {
      const [from, to] = [keyOf.prompt(taskId, 0), keyOf.prompt(taskId, beforeTurn - 1)];
      const prompts: { turn: number; prompt: string }[] = [];
      for (let { pk, sk } = from; ; ) {
        const page = await table.readRange(pk, sk, to.sk);
        for (const { turn, prompt } of page.items)
          prompts.push({ turn: Number(turn), prompt: String(prompt) });
        const last = prompts.at(-1);
        if (!page.more || !last) return prompts;
        sk = keyOf.prompt(taskId, last.turn + 1).sk;
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
          ...(set.dueAt !== undefined && { dueShard: dueShardOf("SESSION", `${userId}#${key}`) }),
          ...(set.expiresAt !== undefined && { ttl: ttlOf(set.expiresAt) }),
        },
        // Any other guard holds of none but a session that is there, with all of this.
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
        ...(after !== undefined && { after: placeOf(userId, after) }),
      });
      const items = page.items.map(readSession);
      const last = items.at(-1);
      return { items, next: page.more && last ? ownedSince(last.createdAt, last.key) : undefined };
    },

    async listHoldingSessions() {
      const items = await table.listDue("SESSION", Number.MAX_SAFE_INTEGER, holdingMax);
      return items.map(readSession).filter(isHolding);
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
      return (await table.readAll(slotsPartition)).map(readSlot);
    },

    async takeSlot(slot, over) {
      return (await table.put({ ...slot, ...keyOf.slot(slot.number) }, slotIs(over))).won;
    },

    async freeSlot(number, name) {
      return await table.remove(keyOf.slot(number), slotIs(name));
    },

    async getBase() {
      const item = await table.get(keyOf.base);
      return item && readBase(item);
    },

    async putBase(base, seen) {
      return (await table.put({ ...base, ...keyOf.base }, versionIs(seen))).won;
    },

    async addUsage(day, userId, counters, expiresAt) {
      const item = await table.addUp(keyOf.usage(day, userId), {
        set: { day, userId, expiresAt, ttl: ttlOf(expiresAt) },
        add: prefixed(counters),
      });
      return readUsage(item);
    },

    async getUsage(day, userId) {
      const item = await table.get(keyOf.usage(day, userId));
      return item && readUsage(item);
    },

    async listUsage(day) {
      return (await table.readAll(usagePartition(day))).map(readUsage);
    },

    async getFlags() {
      return ((await table.get(keyOf.flags))?.flags ?? {}) as Flags;
    },

    async putFlags(flags) {
      await table.putAnyway({ ...keyOf.flags, flags });
    },

    async getKey(id) {
      const item = await table.get(keyOf.key(id));
      return item && readKey(item);
    },

    async createKey(key) {
      return mapOutcome(await table.put({ ...keyItem(key), ...keyOf.key(key.id) }, isAbsent), readKey);
    },

    async listKeys({ limit, after }) {
      const from = after === undefined ? {} : { after: { ...keyOf.key(after), ownedAt: after } };
      return pageOf(await table.listOwned(ownerOf.keys, { limit, ...from }), readKey);
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

/** A counter's attribute: apart from the item's own names, whatever it is called. */
const counterPrefix = "n_";

function prefixed(counters: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counters).map(([name, by]) => [counterPrefix + name, by]));
}

function readUsage({ day, userId, ...rest }: Item): UsageRecord {
  const counted = Object.entries(rest).filter(([name]) => name.startsWith(counterPrefix));
  const counters = counted.map(([name, value]) => [name.slice(counterPrefix.length), Number(value)]);
  return { day: String(day), userId: String(userId), counters: Object.fromEntries(counters) };
}

/** Where a list of sessions goes on: its cursor is the place of the last one. */
function placeOf(userId: string, ownedAt: string) {
  return { ...keyOf.session(userId, ownedAt.slice(ownedAt.indexOf("#") + 1)), ownedAt };
}

function isHolding({ sandbox }: Session): boolean {
  return sandbox !== undefined;
}

/** An item that is no longer due leaves the index. */
function withShard(remove: readonly string[]): readonly string[] {
  return remove.includes("dueAt") ? [...remove, "dueShard"] : remove;
}

/** What goes on after its last item's id. */
function pageOf<T extends { id: string }>(
  page: { items: Item[]; more: boolean },
  read: (item: Item) => T,
): Page<T> {
  const items = page.items.map(read);
  return { items, next: page.more ? items.at(-1)?.id : undefined };
}

function mapOutcome<T>(outcome: Outcome<Item>, read: (item: Item) => T): Outcome<T> {
  if (outcome.won) return { won: true, item: read(outcome.item) };
  return { won: false, item: outcome.item && read(outcome.item) };
}
