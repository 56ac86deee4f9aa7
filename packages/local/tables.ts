/**
 * The topology's tables in the DynamoDB engine. `ttlField` has no counterpart: dynalite has no TTL, so
 * expired items stay, which every reader has to expect on AWS as well.
 */
import { isDeepStrictEqual } from "node:util";
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DescribeTableCommand,
  DynamoDBClient,
  type KeySchemaElement,
  type Projection,
  ResourceNotFoundException,
  type TableDescription,
} from "@aws-sdk/client-dynamodb";
import type { Index, SecondaryIndex, Table, Topology } from "../../infra/topology.ts";
import { type Credentials, clientConfig, physicalName } from "./aws.ts";

export async function createTables(
  endpoint: string,
  topology: Topology,
  credentials?: Credentials,
): Promise<void> {
  const client = new DynamoDBClient(clientConfig(endpoint, credentials));
  try {
    await Promise.all(
      Object.entries(topology.table).map(([name, table]) => createTable(client, name, table)),
    );
  } finally {
    client.destroy();
  }
}

async function createTable(client: DynamoDBClient, name: string, table: Table): Promise<void> {
  const wanted = definition(name, table);
  const existing = await describe(client, physicalName(name));
  if (!existing) return void (await client.send(new CreateTableCommand(wanted)));
  if (isDeepStrictEqual(keysOf(existing), keysOf(wanted)) && holdsEnough(existing, wanted)) return;
  throw new Error(
    `the data directory's table ${name} has other keys or indexes than the topology: use a fresh --data-dir`,
  );
}

async function describe(client: DynamoDBClient, TableName: string): Promise<TableDescription | undefined> {
  try {
    return (await client.send(new DescribeTableCommand({ TableName }))).Table;
  } catch (error) {
    if (error instanceof ResourceNotFoundException) return undefined;
    throw error;
  }
}

function definition(name: string, table: Table): CreateTableCommandInput {
  const indexes = Object.entries(table.indexes).map(([IndexName, index]) => ({
    IndexName,
    KeySchema: keySchema(index),
    Projection: projectionOf(index),
  }));
  return {
    TableName: physicalName(name),
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: Object.entries(table.fields).map(([AttributeName, type]) => ({
      AttributeName,
      AttributeType: type === "number" ? "N" : "S",
    })),
    KeySchema: keySchema(table.primaryIndex),
    ...(indexes.length > 0 && { GlobalSecondaryIndexes: indexes }),
  };
}

function keySchema(index: Index): KeySchemaElement[] {
  return [
    { AttributeName: index.hash, KeyType: "HASH" },
    { AttributeName: index.range, KeyType: "RANGE" },
  ];
}

function projectionOf({ projection }: SecondaryIndex): Projection {
  if (projection === "all") return { ProjectionType: "ALL" };
  if (projection.length === 0) return { ProjectionType: "KEYS_ONLY" };
  return { ProjectionType: "INCLUDE", NonKeyAttributes: [...projection] };
}

type Described = Pick<TableDescription | CreateTableCommandInput, "KeySchema" | "GlobalSecondaryIndexes">;

/** What a table has from its beginning: an engine keeps the indexes that it was given first. */
function keysOf({ KeySchema: primary, GlobalSecondaryIndexes = [] }: Described) {
  const indexes = GlobalSecondaryIndexes.map(
    ({ IndexName = "", KeySchema }) => [IndexName, KeySchema] as const,
  );
  return { primary, indexes: new Map(indexes) };
}

/** Every index holds what is wanted of it; one that holds more, as those of older versions do, is as good. */
function holdsEnough(existing: Described, wanted: Described): boolean {
  const held = new Map(
    (existing.GlobalSecondaryIndexes ?? []).map(({ IndexName, Projection: of }) => [IndexName, of]),
  );
  return (wanted.GlobalSecondaryIndexes ?? []).every(({ IndexName, Projection: of }) => {
    const has = held.get(IndexName);
    if (has?.ProjectionType === "ALL") return true;
    const attributes = has?.NonKeyAttributes ?? [];
    return (
      of?.ProjectionType !== "ALL" && (of?.NonKeyAttributes ?? []).every((name) => attributes.includes(name))
    );
  });
}
