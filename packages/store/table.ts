import { ConditionalCheckFailedException, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  type QueryCommandInput,
  type QueryCommandOutput,
  UpdateCommand,
} from "@aws-sdk/lib-dynamodb";
import type { Clock, Outcome } from "@concierge/core";
import type { Condition } from "./conditions.ts";
import { type DueKind, dueShardsOf, type Item } from "./items.ts";
import { buildUpdate, type UpdateParts } from "./update.ts";
import { schemaVersion } from "./version.ts";

export type Key = { pk: string; sk: string };

/** What the store does to the one table: one item a write, each under a condition; reads that decide are consistent. */
export function createTable(options: { client: DynamoDBClient; tableName: string; clock: Clock }) {
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
      await client.send(new PutCommand({ TableName, Item: versioned(item), ...expressions(condition) }));
      return item;
    });

  const update = (key: Key, parts: UpdateParts, condition: Condition): Promise<Outcome<Item>> =>
    conditionally(key, async () => {
      const input = {
        TableName,
        Key: key,
        ReturnValues: "ALL_NEW" as const,
        ...buildUpdate({ ...parts, set: versioned(parts.set) }, condition),
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

  /** The newest of an owner's items, going on after one of them; filtered items are made up for from further pages. */
  const listOwned = async (
    owner: string,
    {
      limit,
      after,
      ...filter
    }: { limit: number; after?: Key & { ownedAt: string } } & Partial<QueryCommandInput>,
  ): Promise<{ items: Item[]; more: boolean }> => {
    const items: Item[] = [];
    let start: Item | undefined = after && { ...after, owner };
    do {
      const page: QueryCommandOutput = await client.send(
        new QueryCommand({
          TableName,
          IndexName: "owner",
          KeyConditionExpression: "#owner = :owner",
          ...filter,
          ExpressionAttributeNames: { "#owner": "owner", ...filter.ExpressionAttributeNames },
          ExpressionAttributeValues: { ":owner": owner, ...filter.ExpressionAttributeValues },
          ScanIndexForward: false,
          Limit: limit + 1,
          ...(start && { ExclusiveStartKey: start }),
        }),
      );
      items.push(...(page.Items ?? []).filter((item) => isLive(item, clock.now())));
      start = page.LastEvaluatedKey;
    } while (start && items.length <= limit);
    return { items: items.slice(0, limit), more: items.length > limit };
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

  /** A page of a partition, from one sort key to another. */
  const readRange = async (
    pk: string,
    from: string,
    to: string,
  ): Promise<{ items: Item[]; more: boolean }> => {
    const page = await client.send(
      new QueryCommand({
        TableName,
        ConsistentRead: true,
        KeyConditionExpression: "pk = :pk AND sk BETWEEN :from AND :to",
        ExpressionAttributeValues: { ":pk": pk, ":from": from, ":to": to },
      }),
    );
    return { items: page.Items ?? [], more: page.LastEvaluatedKey !== undefined };
  };

  /** All of a partition, as it is now. */
  const readAll = async (pk: string): Promise<Item[]> => {
    const items: Item[] = [];
    let start: Item | undefined;
    do {
      const page: QueryCommandOutput = await client.send(
        new QueryCommand({
          TableName,
          ConsistentRead: true,
          KeyConditionExpression: "pk = :pk",
          ExpressionAttributeValues: { ":pk": pk },
          ...(start && { ExclusiveStartKey: start }),
        }),
      );
      items.push(...(page.Items ?? []));
      start = page.LastEvaluatedKey;
    } while (start);
    return items.filter((item) => isLive(item, clock.now()));
  };

  /** Adds to numbers, whether the item is there or not. */
  const addUp = async (key: Key, parts: UpdateParts): Promise<Item> => {
    const update = buildUpdate({ ...parts, set: versioned(parts.set) });
    const input = { TableName, Key: key, ...update, ReturnValues: "ALL_NEW" } as const;
    const { Attributes = {} } = await client.send(new UpdateCommand(input));
    return Attributes;
  };

  /** What is last put, stays. */
  const putAnyway = async (item: Item & Key): Promise<void> => {
    await client.send(new PutCommand({ TableName, Item: versioned(item) }));
  };

  return { get, put, putAnyway, update, addUp, remove, listOwned, listDue, readRange, readAll };
}

function expressions({ expression, names, values }: Condition) {
  return {
    ConditionExpression: expression,
    ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: values }),
  };
}

function versioned(fields: Item): Item {
  return { ...fields, schema: schemaVersion };
}

function isLive(item: Item, now: number): boolean {
  return typeof item.expiresAt !== "number" || item.expiresAt > now;
}
