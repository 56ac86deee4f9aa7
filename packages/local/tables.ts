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
  ResourceNotFoundException,
  type TableDescription,
} from "@aws-sdk/client-dynamodb";
import type { Index, Table, Topology } from "../../infra/topology.ts";
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
  if (isDeepStrictEqual(keys(existing), keys(wanted))) return;
  throw new Error(
    `the data directory's table ${name} has other keys than the topology: use a fresh --data-dir`,
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
    Projection: { ProjectionType: "ALL" as const },
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

function keys(table: TableDescription | CreateTableCommandInput) {
  const indexes = table.GlobalSecondaryIndexes ?? [];
  const pairs = indexes.map(({ IndexName = "", KeySchema }) => [IndexName, KeySchema] as const);
  return { primary: table.KeySchema, indexes: new Map(pairs) };
}
