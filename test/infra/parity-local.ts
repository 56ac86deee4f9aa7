/** Asks the running local stack: its engines for tables and queues, its processes for their environment. */
import { readFile } from "node:fs/promises";
import { DescribeTableCommand, DynamoDBClient, type KeySchemaElement } from "@aws-sdk/client-dynamodb";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { clientConfig, type LocalStack, physicalName } from "@concierge/dev";
import type { Topology } from "../../infra/topology.ts";
import { type FunctionView, type Keys, type QueueView, sorted, type TableView, type View } from "./parity.ts";

export async function ofLocalStack(stack: LocalStack, topology: Topology): Promise<View> {
  const dynamodb = new DynamoDBClient(clientConfig(stack.endpoints.dynamodb, stack.credentials));
  const sqs = new SQSClient(clientConfig(stack.endpoints.sqs, stack.credentials));
  try {
    return {
      tables: await mapAsync(Object.keys(topology.table), (name) => localTable(dynamodb, name)),
      queues: await mapAsync(Object.keys(topology.queues), (name) => localQueue(sqs, stack.queueUrls, name)),
      functions: await mapAsync(
        stack.functions.map(({ name }) => name),
        (name) => localFunction(stack, name),
      ),
    };
  } finally {
    dynamodb.destroy();
    sqs.destroy();
  }
}

async function localTable(client: DynamoDBClient, name: string): Promise<TableView> {
  const { Table } = await client.send(new DescribeTableCommand({ TableName: physicalName(name) }));
  const indexes = Table?.GlobalSecondaryIndexes ?? [];
  return {
    fields: Object.fromEntries(
      (Table?.AttributeDefinitions ?? []).map(({ AttributeName = "", AttributeType = "" }) => [
        AttributeName,
        AttributeType,
      ]),
    ),
    keys: keysOf(Table?.KeySchema),
    indexes: Object.fromEntries(
      indexes.map(({ IndexName = "", KeySchema, Projection }) => {
        const { ProjectionType, NonKeyAttributes = [] } = Projection ?? {};
        const projection = ProjectionType === "ALL" ? "ALL" : sorted([...NonKeyAttributes]);
        return [IndexName, { keys: keysOf(KeySchema), projection }];
      }),
    ),
  };
}

async function localQueue(client: SQSClient, urls: Record<string, string>, name: string): Promise<QueueView> {
  const attributes = async (queue: string) => {
    const asked = new GetQueueAttributesCommand({ QueueUrl: urls[queue], AttributeNames: ["All"] });
    return (await client.send(asked)).Attributes ?? {};
  };
  const [own, dlq] = await Promise.all([attributes(name), attributes(`${name}Dlq`)]);
  const { deadLetterTargetArn, maxReceiveCount } = JSON.parse(own.RedrivePolicy ?? "{}");
  return {
    delaySeconds: Number(own.DelaySeconds),
    visibilitySeconds: Number(own.VisibilityTimeout),
    retentionSeconds: Number(own.MessageRetentionPeriod),
    deadLetterRetentionSeconds: Number(dlq.QueueArn === deadLetterTargetArn && dlq.MessageRetentionPeriod),
    maxReceives: Number(maxReceiveCount),
  };
}

/** What a local function's environment has besides what it names: any process's, Lambda's and the SDK's. */
const ofTheHost =
  /^(PATH|HOME|TMPDIR|TZ|LANG|LC_ALL|_HANDLER|LAMBDA_TASK_ROOT|AWS_.+|NODE_CHANNEL_.+|VERCEL_SANDBOX_URL)$/;
const resourcePrefix = "SST_RESOURCE_";

async function localFunction(stack: LocalStack, name: string): Promise<FunctionView> {
  const process = stack.processes().find((one) => one.name === `${name}#1`);
  const environ = await readFile(`/proc/${process?.pid}/environ`, "utf8");
  const variables = new Map(environ.split("\0").map((line): [string, string] => split(line)));
  const names = [...variables.keys()].filter((variable) => variable !== "");
  const resources = names.filter(
    (variable) => variable.startsWith(resourcePrefix) && variable !== "SST_RESOURCE_App",
  );
  const invokers = stack.invokers.filter((invoker) => invoker.function === name);
  return {
    timeoutSeconds: (stack.functions.find((one) => one.name === name)?.timeoutMs ?? 0) / 1000,
    memoryMb: Number(variables.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")),
    variables: sorted(
      names.filter((variable) => !variable.startsWith(resourcePrefix) && !ofTheHost.test(variable)),
    ),
    resources: Object.fromEntries(
      resources.map((variable) => [
        variable.slice(resourcePrefix.length),
        JSON.parse(variables.get(variable) ?? "{}").type,
      ]),
    ),
    sources: invokers.flatMap(({ source }) => source ?? []),
    everyMs: invokers.find(({ everyMs }) => everyMs !== undefined)?.everyMs ?? null,
  };
}

function keysOf(schema: KeySchemaElement[] = []): Keys {
  const of = (type: string) => schema.find(({ KeyType }) => KeyType === type)?.AttributeName ?? "";
  return [of("HASH"), of("RANGE")];
}

function split(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}

async function mapAsync<Out>(
  names: string[],
  map: (name: string) => Promise<Out>,
): Promise<Record<string, Out>> {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await map(name)] as const)));
}
