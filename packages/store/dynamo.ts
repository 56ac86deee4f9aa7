import { ConditionalCheckFailedException, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  type QueryCommandInput,
  UpdateCommand,
} from "@aws-sdk/lib-dynamodb";
import type { Clock, Flags, IdempotencyRecord, Outcome, Page, Store } from "@concierge/core";
import {
  type Condition,
  isAbsent,
  isAbsentOrExpired,
  isThere,
  isWarm,
  sessionAllows,
  taskAllows,
} from "./conditions.ts";
import {
  type DueKind,
  dueShardOf,
  dueShardsOf,
  type Item,
  keyItem,
  keyOf,
  ownerOf,
  readKey,
  readRecord,
  readSession,
  readTask,
  readWarm,
  recordItem,
  recordSortBehind,
  taskItem,
  ttlOf,
  warmItem,
} from "./items.ts";
import { buildUpdate, type UpdateParts } from "./update.ts";

type Key = { pk: string; sk: string };

/** The one table. Every change is one conditional write on one item; every read that decides is consistent. */
export function createDynamoStore(options: {
  client: DynamoDBClient;
  tableName: string;
  clock: Clock;
}): Store {
  const { tableName: TableName, clock } = options;
  const client = DynamoDBDocumentClient.from(options.client, {
    marshallOptions: { removeUndefinedValues: true },
  });

  const get = async (key: Key): Promise<Item | undefined> => {
    const { Item } = await client.send(new GetCommand({ TableName, Key: key, ConsistentRead: true }));
    return Item && isLive(Item, clock.now()) ? Item : undefined;
  };

  /** An engine may not tell what a lost write lost to, so it is read; by then it may have gone on, which is as good. */
  const conditionally = async (key: Key, write: () => Promise<Item | undefined>): Promise<Outcome<Item>> => {
    try {
      return { won: true, item: (await write()) ?? {} };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      return { won: false, item: await get(key) };
    }
  };

  const put = (item: Item & Key, condition: Condition): Promise<Outcome<Item>> =>
    conditionally({ pk: item.pk, sk: item.sk }, async () => {
      await client.send(new PutCommand({ TableName, Item: item, ...expressions(condition) }));
      return item;
    });

  const update = (key: Key, parts: UpdateParts, condition: Condition): Promise<Outcome<Item>> =>
    conditionally(key, async () => {
      const input = {
        TableName,
        Key: key,
        ReturnValues: "ALL_NEW" as const,
        ...buildUpdate(parts, condition),
      };
      return (await client.send(new UpdateCommand(input))).Attributes;
    });

  const remove = async (key: Key, condition: Condition): Promise<boolean> => {
    const outcome = await conditionally(key, async () => {
      await client.send(new DeleteCommand({ TableName, Key: key, ...expressions(condition) }));
      return {};
    });
    return outcome.won;
  };

  const listOwned = async <T extends { id: string }>(
    owner: string,
    read: (item: Item) => T,
    keyFor: (id: string) => Key,
    { limit, after, ...filter }: { limit: number; after?: string } & Partial<QueryCommandInput>,
  ): Promise<Page<T>> => {
    const items: T[] = [];
    let start = after === undefined ? undefined : { ...keyFor(after), owner, ownedAt: after };
    do {
      const { ExpressionAttributeValues, ExpressionAttributeNames, ...rest } = filter;
      const page = await client.send(
        new QueryCommand({
          TableName,
          IndexName: "owner",
          KeyConditionExpression: "#owner = :owner",
          ...rest,
          ExpressionAttributeNames: { "#owner": "owner", ...ExpressionAttributeNames },
          ExpressionAttributeValues: { ":owner": owner, ...ExpressionAttributeValues },
          ScanIndexForward: false,
          Limit: limit + 1,
          ...(start && { ExclusiveStartKey: start }),
        }),
      );
      items.push(...(page.Items ?? []).filter((item) => isLive(item, clock.now())).map(read));
      start = page.LastEvaluatedKey as typeof start;
    } while (start && items.length <= limit);
    const kept = items.slice(0, limit);
    return { items: kept, next: items.length > limit ? kept.at(-1)?.id : undefined };
  };

  const listDue = async (kind: DueKind, now: number, limit: number): Promise<Item[]> => {
    const pages = await Promise.all(
      dueShardsOf(kind).map((shard) =>
        client.send(
          new QueryCommand({
            TableName,
            IndexName: "due",
            KeyConditionExpression: "dueShard = :shard AND dueAt <= :now",
            ExpressionAttributeValues: { ":shard": shard, ":now": now },
            Limit: limit,
          }),
        ),
      ),
    );
    const due = pages.flatMap((page) => page.Items ?? []);
    return due.sort((a, b) => Number(a.dueAt) - Number(b.dueAt)).slice(0, limit);
  };

  return {
    async getTask(id) {
      const item = await get(keyOf.task(id));
      return item && readTask(item);
    },

    async createTask(task) {
      return mapOutcome(await put({ ...taskItem(task), ...keyOf.task(task.id) }, isAbsent), readTask);
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
      return mapOutcome(await update(keyOf.task(id), parts, taskAllows(guard, clock.now())), readTask);
    },

    async listTasks(userId, { limit, after, status, sessionKey }) {
      const filters = [
        ...(status ? ["#state.#status = :status"] : []),
        ...(sessionKey ? ["sessionKey = :sessionKey"] : []),
      ];
      return await listOwned(ownerOf.tasks(userId), readTask, keyOf.task, {
        limit,
        ...(after !== undefined && { after }),
        ...(filters.length > 0 && {
          FilterExpression: filters.join(" AND "),
          ExpressionAttributeValues: {
            ...(status && { ":status": status }),
            ...(sessionKey && { ":sessionKey": sessionKey }),
          },
          ...(status && { ExpressionAttributeNames: { "#state": "state", "#status": "status" } }),
        }),
      });
    },

    async listDueTasks(now, limit) {
      return (await listDue("TASK", now, limit)).map((item) => String(item.id));
    },

    async listDueSessions(now, limit) {
      return (await listDue("SESSION", now, limit)).map(({ userId, key }) => ({
        userId: String(userId),
        key: String(key),
      }));
    },

    async putRecord(taskId, record, expiresAt) {
      await put({ ...recordItem(taskId, record, expiresAt), ...keyOf.record(taskId, record) }, isAbsent);
    },

    async readRecords(taskId, from, toTurn) {
      const { pk, sk } = keyOf.record(taskId, from);
      const page = await client.send(
        new QueryCommand({
          TableName,
          ConsistentRead: true,
          KeyConditionExpression: "pk = :pk AND sk BETWEEN :from AND :to",
          ExpressionAttributeValues: { ":pk": pk, ":from": sk, ":to": recordSortBehind(toTurn) },
        }),
      );
      return { records: (page.Items ?? []).map(readRecord), more: page.LastEvaluatedKey !== undefined };
    },

    async getSession(userId, key) {
      const item = await get(keyOf.session(userId, key));
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
        setOnce: {
          userId,
          key,
          owner: ownerOf.sessions(userId),
          ownedAt: key,
          createdAt: now,
          ...(set.epoch === undefined && { epoch: 0 }),
        },
        remove: withShard(remove),
      };
      return mapOutcome(
        await update(keyOf.session(userId, key), parts, sessionAllows(guard, now)),
        readSession,
      );
    },

    async listWarm() {
      const page = await client.send(
        new QueryCommand({
          TableName,
          IndexName: "owner",
          KeyConditionExpression: "#owner = :owner",
          ExpressionAttributeNames: { "#owner": "owner" },
          ExpressionAttributeValues: { ":owner": ownerOf.warm },
        }),
      );
      return (page.Items ?? []).map(readWarm);
    },

    async getWarm(name) {
      const item = await get(keyOf.warm(name));
      return item && readWarm(item);
    },

    async createWarm(warm) {
      return (await put(warmItem(warm), isAbsent)).won;
    },

    async changeWarm(name, from, warm) {
      return (await put({ ...warmItem(warm), ...keyOf.warm(name) }, isWarm(from))).won;
    },

    async deleteWarm(name, from) {
      return await remove(keyOf.warm(name), isWarm(from));
    },

    async getFlags() {
      return ((await get(keyOf.flags))?.flags ?? {}) as Flags;
    },

    async putFlags(flags) {
      await client.send(new PutCommand({ TableName, Item: { ...keyOf.flags, flags } }));
    },

    async getKey(id) {
      const item = await get(keyOf.key(id));
      return item && readKey(item);
    },

    async createKey(key) {
      return mapOutcome(await put({ ...keyItem(key), ...keyOf.key(key.id) }, isAbsent), readKey);
    },

    async listKeys(page) {
      return await listOwned(ownerOf.keys, readKey, keyOf.key, page);
    },

    async deleteKey(id) {
      return await remove(keyOf.key(id), isThere);
    },

    async claimIdempotencyKey(scope, record) {
      const key = keyOf.idempotency(scope);
      const item = { ...record, ...key, ttl: ttlOf(record.expiresAt) };
      return mapOutcome(await put(item, isAbsentOrExpired(clock.now())), readIdempotency);
    },
  };
}

function expressions({ expression, names, values }: Condition) {
  return {
    ConditionExpression: expression,
    ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: values }),
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

/** An item that is no longer due leaves the index. */
function withShard(remove: readonly string[]): readonly string[] {
  return remove.includes("dueAt") ? [...remove, "dueShard"] : remove;
}

function isLive(item: Item, now: number): boolean {
  return typeof item.expiresAt !== "number" || item.expiresAt > now;
}

function mapOutcome<T>(outcome: Outcome<Item>, read: (item: Item) => T): Outcome<T> {
  if (outcome.won) return { won: true, item: read(outcome.item) };
  return { won: false, item: outcome.item && read(outcome.item) };
}
