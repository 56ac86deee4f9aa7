import {
  BatchGetItemCommand,
  ConditionalCheckFailedException,
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type QueryCommandInput,
  UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import type { Clock, Outcome } from "@concierge/core";
import { type Attributes, fromAttributes, placeholders, toAttributes } from "./attributes.ts";
import {
  all,
  type Condition,
  isBefore,
  isBetween,
  isDue,
  isIn,
  isInPartition,
  isOwnedBy,
} from "./conditions.ts";
import { type DueKind, dueShardsOf, type Item } from "./items.ts";
import { buildUpdate, type UpdateParts } from "./update.ts";
import { schemaVersion } from "./version.ts";

export type Key = { pk: string; sk: string };

/** DynamoDB's limit of keys per request. */
const batchGetMax = 100;
/** Requests per page of a list. */
const listRequestsMax = 4;

export type Table = ReturnType<typeof createTable>;

/** Access to the table. Every write is one item, and reads that decisions depend on are consistent. */
export function createTable(options: { client: DynamoDBClient; tableName: string; clock: Clock }) {
  const { client, tableName: TableName, clock } = options;

  const get = async (key: Key): Promise<Item | undefined> => {
    const item = await getRaw(key);
    return item && isLive(item, clock.now()) ? item : undefined;
  };

  /** Also an expired item. */
  const getRaw = async (key: Key): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName, Key: toAttributes(key), ConsistentRead: true });
    const { Item } = await client.send(command);
    return Item && fromAttributes(Item);
  };

  /** A lost write returns the current item. It is read afterwards, because not every engine returns it with the error. */
  const conditionally = async (key: Key, write: () => Promise<Item>): Promise<Outcome<Item>> => {
    try {
      return { won: true, item: await write() };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      return { won: false, item: await get(key) };
    }
  };

  const put = (item: Item & Key, condition: Condition): Promise<Outcome<Item>> =>
    conditionally({ pk: item.pk, sk: item.sk }, async () => {
      const Item = toAttributes(versioned(item));
      await client.send(new PutItemCommand({ TableName, Item, ...conditional(condition) }));
      return item;
    });

  const update = (key: Key, parts: UpdateParts, condition: Condition): Promise<Outcome<Item>> =>
    conditionally(key, () => sendUpdate(key, parts, condition));

  const remove = async (key: Key, condition: Condition): Promise<boolean> => {
    const outcome = await conditionally(key, async () => {
      const Key = toAttributes(key);
      await client.send(new DeleteItemCommand({ TableName, Key, ...conditional(condition) }));
      return {};
    });
    return outcome.won;
  };

  /**
   * A page of an owner's items, newest first. The index has the keys and the filter attributes, the table the items. Makes
   * a bounded number of requests, so a filtered page can be short, or even empty, and still have a `next`.
   */
  const listOwned = async (
    owner: string,
    { limit, after, filter }: { limit: number; after?: Key & { ownedAt: string }; filter?: Condition },
  ): Promise<{ items: Item[]; next: string | undefined }> => {
    const found: Item[] = [];
    let start = after && toAttributes({ ...after, owner });
    for (let requests = 0; requests < listRequestsMax; requests++) {
      const page = await query(isOwnedBy(owner), {
        IndexName: "owner",
        ...(filter && { filter }),
        ScanIndexForward: false,
        // Without a limit, one request filters a megabyte of index entries, which are thousands.
        ...(!filter && { Limit: limit + 1 }),
        ...(start && { ExclusiveStartKey: start }),
      });
      found.push(...page.items);
      start = page.next;
      if (!start || found.length > limit) break;
    }
    const listed = found.slice(0, limit);
    const items = await getAll(listed.map(({ pk, sk }) => ({ pk: String(pk), sk: String(sk) })));
    const last = found.length > limit ? listed.at(-1)?.ownedAt : start && fromAttributes(start).ownedAt;
    return { items, next: last === undefined ? undefined : String(last) };
  };

  /** Items by their keys, in that order, without missing ones. */
  const getAll = async (keys: readonly Key[]): Promise<Item[]> => {
    const found = new Map<string, Item>();
    for (let from = 0; from < keys.length; from += batchGetMax) {
      let wanted: Attributes[] = keys.slice(from, from + batchGetMax).map(toAttributes);
      while (wanted.length > 0) {
        const RequestItems = { [TableName]: { Keys: wanted, ConsistentRead: true } };
        const { Responses, UnprocessedKeys } = await client.send(new BatchGetItemCommand({ RequestItems }));
        const read: Attributes[] = Responses?.[TableName] ?? [];
        for (const item of read.map(fromAttributes)) found.set(`${String(item.pk)} ${String(item.sk)}`, item);
        wanted = UnprocessedKeys?.[TableName]?.Keys ?? [];
      }
    }
    const inOrder = keys.map(({ pk, sk }) => found.get(`${pk} ${sk}`));
    return inOrder.filter((item) => item !== undefined && isLive(item, clock.now())) as Item[];
  };

  /** Due items, longest due first, with the attributes of the index. One page per shard. */
  const listDue = async (
    kinds: readonly DueKind[],
    now: number,
    limit: number,
    filter?: Condition,
  ): Promise<Item[]> => {
    const shards = kinds.flatMap(dueShardsOf);
    const pages = await Promise.all(
      shards.map((shard) =>
        query(isDue(shard, now), { IndexName: "due", ...(filter ? { filter } : { Limit: limit }) }),
      ),
    );
    const due = pages.flatMap(({ items }) => items);
    return due.sort((a, b) => Number(a.dueAt) - Number(b.dueAt)).slice(0, limit);
  };

  /** A page of a partition, from one sort key to another. */
  const readRange = async (
    pk: string,
    from: string,
    to: string,
  ): Promise<{ items: Item[]; more: boolean }> => {
    const { items, next } = await query(isBetween(pk, from, to), { ConsistentRead: true });
    return { items, more: next !== undefined };
  };

  /** All items of a partition whose sort keys have this prefix. */
  const readAll = async (pk: string, prefix: string): Promise<Item[]> => {
    const items: Item[] = [];
    let start: Attributes | undefined;
    do {
      const page = await query(isIn(pk, prefix), {
        ConsistentRead: true,
        ...(start && { ExclusiveStartKey: start }),
      });
      items.push(...page.items);
      start = page.next;
    } while (start);
    return items.filter((item) => isLive(item, clock.now()));
  };

  /** The keys of all items of a partition, also of expired ones. */
  const readKeys = async (pk: string): Promise<Key[]> => {
    const keys: Key[] = [];
    let start: Attributes | undefined;
    do {
      const page = await query(isInPartition(pk), {
        ConsistentRead: true,
        ProjectionExpression: "pk, sk",
        ...(start && { ExclusiveStartKey: start }),
      });
      keys.push(...page.items.map(({ sk }) => ({ pk, sk: String(sk) })));
      start = page.next;
    } while (start);
    return keys;
  };

  /** A page of a partition before a sort key, last one first. */
  const readBefore = async (
    pk: string,
    before: string,
    limit: number,
  ): Promise<{ items: Item[]; more: boolean }> => {
    const page = await query(isBefore(pk, before), { ScanIndexForward: false, Limit: limit });
    return {
      items: page.items.filter((item) => isLive(item, clock.now())),
      more: page.next !== undefined,
    };
  };

  /** The keys of some of an owner's items, from the index alone. */
  const listOwnedKeys = async (owner: string, limit: number): Promise<Key[]> => {
    const page = await query(isOwnedBy(owner), { IndexName: "owner", Limit: limit });
    return page.items.map(({ pk, sk }) => ({ pk: String(pk), sk: String(sk) }));
  };

  /** Adds to numbers; creates the item if needed. */
  const addUp = (key: Key, parts: UpdateParts): Promise<Item> => sendUpdate(key, parts);

  /** Last write wins. */
  const putUnconditionally = async (item: Item & Key): Promise<void> => {
    await client.send(new PutItemCommand({ TableName, Item: toAttributes(versioned(item)) }));
  };

  const sendUpdate = async (key: Key, parts: UpdateParts, condition?: Condition): Promise<Item> => {
    const update = buildUpdate({ ...parts, set: versioned(parts.set) }, condition);
    const input = { TableName, Key: toAttributes(key), ...update, ReturnValues: "ALL_NEW" } as const;
    const { Attributes = {} } = await client.send(new UpdateItemCommand(input));
    return fromAttributes(Attributes);
  };

  /** One page, and the start of the next. */
  const query = async (
    key: Condition,
    { filter, ...input }: { filter?: Condition } & Partial<QueryCommandInput>,
  ): Promise<{ items: Item[]; next: Attributes | undefined }> => {
    const { Items = [], LastEvaluatedKey } = await client.send(
      new QueryCommand({
        TableName,
        KeyConditionExpression: key.expression,
        ...(filter && { FilterExpression: filter.expression }),
        ...placeholders(filter ? all([key, filter]) : key),
        ...input,
      }),
    );
    return { items: Items.map(fromAttributes), next: LastEvaluatedKey };
  };

  return {
    get,
    getRaw,
    put,
    putUnconditionally,
    update,
    addUp,
    remove,
    listOwned,
    listOwnedKeys,
    listDue,
    readRange,
    readBefore,
    readAll,
    readKeys,
  };
}

function conditional(condition: Condition) {
  return { ConditionExpression: condition.expression, ...placeholders(condition) };
}

function versioned(fields: Item): Item {
  return { ...fields, schema: schemaVersion };
}

function isLive(item: Item, now: number): boolean {
  return typeof item.expiresAt !== "number" || item.expiresAt > now;
}
