import {
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
import { all, type Condition, isBetween, isDue, isIn, isOwnedBy } from "./conditions.ts";
import { type DueKind, dueShardsOf, type Item } from "./items.ts";
import { buildUpdate, type UpdateParts } from "./update.ts";
import { schemaVersion } from "./version.ts";

export type Key = { pk: string; sk: string };

/** What the store does to the one table: one item a write, each under a condition; reads that decide are consistent. */
export function createTable(options: { client: DynamoDBClient; tableName: string; clock: Clock }) {
  const { client, tableName: TableName, clock } = options;

  const get = async (key: Key): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName, Key: toAttributes(key), ConsistentRead: true });
    const { Item } = await client.send(command);
    const item = Item && fromAttributes(Item);
    return item && isLive(item, clock.now()) ? item : undefined;
  };

  /** An engine may not tell what a lost write lost to, so it is read; by then it may have gone on, which is as good. */
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

  /** The newest of an owner's items, going on after one of them; filtered items are made up for from further pages. */
  const listOwned = async (
    owner: string,
    { limit, after, filter }: { limit: number; after?: Key & { ownedAt: string }; filter?: Condition },
  ): Promise<{ items: Item[]; more: boolean }> => {
    const items: Item[] = [];
    let start = after && toAttributes({ ...after, owner });
    do {
      const page = await query(isOwnedBy(owner), {
        IndexName: "owner",
        ...(filter && { filter }),
        ScanIndexForward: false,
        Limit: limit + 1,
        ...(start && { ExclusiveStartKey: start }),
      });
      items.push(...page.items.filter((item) => isLive(item, clock.now())));
      start = page.next;
    } while (start && items.length <= limit);
    return { items: items.slice(0, limit), more: items.length > limit };
  };

  const listDue = async (kind: DueKind, now: number, limit: number): Promise<Item[]> => {
    const pages = await Promise.all(
      dueShardsOf(kind).map((shard) => query(isDue(shard, now), { IndexName: "due", Limit: limit })),
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

  /** All of a partition, as it is now. */
  const readAll = async (pk: string): Promise<Item[]> => {
    const items: Item[] = [];
    let start: Attributes | undefined;
    do {
      const page = await query(isIn(pk), {
        ConsistentRead: true,
        ...(start && { ExclusiveStartKey: start }),
      });
      items.push(...page.items);
      start = page.next;
    } while (start);
    return items.filter((item) => isLive(item, clock.now()));
  };

  /** Adds to numbers, whether the item is there or not. */
  const addUp = (key: Key, parts: UpdateParts): Promise<Item> => sendUpdate(key, parts);

  /** What is last put, stays. */
  const putAnyway = async (item: Item & Key): Promise<void> => {
    await client.send(new PutItemCommand({ TableName, Item: toAttributes(versioned(item)) }));
  };

  const sendUpdate = async (key: Key, parts: UpdateParts, condition?: Condition): Promise<Item> => {
    const update = buildUpdate({ ...parts, set: versioned(parts.set) }, condition);
    const input = { TableName, Key: toAttributes(key), ...update, ReturnValues: "ALL_NEW" } as const;
    const { Attributes = {} } = await client.send(new UpdateItemCommand(input));
    return fromAttributes(Attributes);
  };

  /** One page, and where the next begins. */
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

  return { get, put, putAnyway, update, addUp, remove, listOwned, listDue, readRange, readAll };
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
