/**
 * Creates the topology's tables in the DynamoDB engine. dynalite has no TTL, so `ttlField` is ignored and expired items
 * stay. On AWS, too, readers can see expired items.
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
import type { Index, SecondaryIndex, Table, Topology } from "../../../infra/topology.ts";
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
  if (isDeepStrictEqual(keysOf(existing), keysOf(wanted)) && projectsEnough(existing, wanted)) return;
  throw new Error(
    `table ${name} in the data directory has other keys or indexes than the topology: use a new --data-dir`,
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

/** Keys and indexes are fixed when a table is created. */
function keysOf({ KeySchema: primary, GlobalSecondaryIndexes = [] }: Described) {
  const indexes = GlobalSecondaryIndexes.map(
    ({ IndexName = "", KeySchema }) => [IndexName, KeySchema] as const,
  );
  return { primary, indexes: new Map(indexes) };
}

/** Whether each index projects at least the wanted attributes. Indexes of older versions may project more. */
function projectsEnough(existing: Described, wanted: Described): boolean {
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
