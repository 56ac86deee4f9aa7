/**
 * What Concierge is made of, seen three ways: as the topology says it, as the SST program renders it, and as
 * the local stack runs it. The local one is asked, not read: its engines for their tables and queues, its
 * processes for their environment. A table's TTL is not in it: the local engine has none.
 */
import { readFile } from "node:fs/promises";
import { DescribeTableCommand, DynamoDBClient, type KeySchemaElement } from "@aws-sdk/client-dynamodb";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { clientConfig, type LocalStack, physicalName } from "@concierge/local";
import { type FunctionDefinition, fileNames, type QueueSource, type Topology } from "../../infra/topology.ts";
import { all, arnOf, find, isRecord, list, type Program, read } from "./resources.ts";

type Keys = readonly [hash: string, range: string];

interface TableView {
  fields: Record<string, string>;
  keys: Keys;
  indexes: Record<string, Keys>;
}

interface QueueView {
  delaySeconds: number;
  visibilitySeconds: number;
  retentionSeconds: number;
  deadLetterRetentionSeconds: number;
  maxReceives: number;
}

interface FunctionView {
  timeoutSeconds: number;
  memoryMb: number;
  /** Their names, with a space between. */
  variables: string;
  /** Types by name, as `Resource` has them. */
  resources: Record<string, string>;
  sources: QueueSource[];
  everyMs: number | null;
}

export interface View {
  tables: Record<string, TableView>;
  queues: Record<string, QueueView>;
  functions: Record<string, FunctionView>;
}

export function ofTopology(topology: Topology): View {
  const tables = mapValues(
    topology.table,
    ({ fields, primaryIndex, indexes }): TableView => ({
      fields: mapValues(fields, (type) => (type === "number" ? "N" : "S")),
      keys: [primaryIndex.hash, primaryIndex.range],
      indexes: mapValues(indexes, ({ hash, range }): Keys => [hash, range]),
    }),
  );
  const queues = mapValues(
    topology.queues,
    (queue): QueueView => ({
      delaySeconds: queue.delayMs / 1000,
      visibilitySeconds: queue.visibilityTimeoutMs / 1000,
      retentionSeconds: queue.retentionMs / 1000,
      deadLetterRetentionSeconds: queue.deadLetterRetentionMs / 1000,
      maxReceives: queue.maxReceives,
    }),
  );
  const functions = mapValues(
    topology.functions,
    (definition): FunctionView => ({
      timeoutSeconds: definition.timeoutMs / 1000,
      memoryMb: definition.memoryMb,
      variables: sorted([...definition.environment, ...Object.keys(fileNames(definition))]),
      resources: resourcesOf(topology, definition),
      sources: [...(definition.sources ?? [])],
      everyMs: definition.scheduleEveryMs ?? null,
    }),
  );
  return { tables, queues, functions };
}

function resourcesOf(topology: Topology, { grants, secrets }: FunctionDefinition): Record<string, string> {
  const granted = grants.map(({ on }) => on.split("/", 1)[0] ?? on);
  return Object.fromEntries([
    ...granted.map((name) => [name, name in topology.table ? "sst.aws.Dynamo" : "sst.aws.Queue"]),
    ...secrets.map((name) => [name, "sst.sst.Secret"]),
  ]);
}

export function ofProgram(program: Program): View {
  const tables = all(program, "table").map((table): [string, TableView] => [
    table.name.replace(/Table$/, ""),
    {
      fields: Object.fromEntries(records(read(table, "attributes")).map(({ name, type }) => [name, type])),
      keys: [String(read(table, "hashKey")), String(read(table, "rangeKey"))],
      indexes: Object.fromEntries(
        records(read(table, "globalSecondaryIndexes")).map(({ name, hashKey, rangeKey }) => [
          name,
          [hashKey, rangeKey],
        ]),
      ),
    },
  ]);
  const queues = all(program, "queue")
    .filter((queue) => !queue.name.endsWith("DlqQueue"))
    .map((queue): [string, QueueView] => {
      const { deadLetterTargetArn, maxReceiveCount } = JSON.parse(String(read(queue, "redrivePolicy")));
      const dlq = all(program, "queue").find((one) => arnOf(one) === deadLetterTargetArn);
      return [
        queue.name.replace(/Queue$/, ""),
        {
          delaySeconds: Number(read(queue, "delaySeconds")),
          visibilitySeconds: Number(read(queue, "visibilityTimeoutSeconds")),
          retentionSeconds: Number(read(queue, "messageRetentionSeconds")),
          deadLetterRetentionSeconds: Number(read(dlq, "messageRetentionSeconds")),
          maxReceives: maxReceiveCount,
        },
      ];
    });
  const functions = program.builds.map(({ functionID: name, links }): [string, FunctionView] => {
    const fn = find(program, "function", `${name}Function`);
    const variables = Object.keys(Object(read(fn, "environment.variables")));
    return [
      name,
      {
        timeoutSeconds: Number(read(fn, "timeout")),
        memoryMb: Number(read(fn, "memorySize")),
        variables: sorted(variables.filter((variable) => !variable.startsWith("SST_"))),
        // Under mocks a type has its parent's before it.
        resources: mapValues(links, ({ type }) => String(type).replace(/^.*\$/, "")),
        sources: sourcesOf(program, arnOf(fn)),
        everyMs: everyMsOf(program, arnOf(fn)),
      },
    ];
  });
  return {
    tables: Object.fromEntries(tables),
    queues: Object.fromEntries(queues),
    functions: Object.fromEntries(functions),
  };
}

function sourcesOf(program: Program, functionArn: string): QueueSource[] {
  return all(program, "source")
    .filter((source) => read(source, "functionName") === functionArn)
    .map((source) => {
      const queue = all(program, "queue").find((one) => arnOf(one) === read(source, "eventSourceArn"));
      return {
        queue: queue?.name.replace(/Queue$/, "") ?? "(none)",
        batchSize: Number(read(source, "batchSize")),
        maxConcurrency: Number(read(source, "scalingConfig.maximumConcurrency")),
        partialResponses: list(read(source, "functionResponseTypes")).includes("ReportBatchItemFailures"),
      };
    });
}

function everyMsOf(program: Program, functionArn: string): number | null {
  const schedule = all(program, "schedule").find((one) => read(one, "target.arn") === functionArn);
  if (!schedule) return null;
  const [, minutes] = /^rate\((\d+) minutes?\)$/.exec(String(read(schedule, "scheduleExpression"))) ?? [];
  return Number(minutes) * 60_000;
}

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
      indexes.map(({ IndexName = "", KeySchema }) => [IndexName, keysOf(KeySchema)]),
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

/** What is in a local function's environment beside what it names: any process's, Lambda's and the SDK's. */
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

/** Where two views say different things, by path. */
export function disagreements(one: unknown, other: unknown, path = ""): string[] {
  if (isContainer(one) && isContainer(other)) {
    const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
    const [left, right]: Record<string, unknown>[] = [{ ...one }, { ...other }];
    return [...keys].flatMap((key) =>
      disagreements(left?.[key], right?.[key], path ? `${path}.${key}` : key),
    );
  }
  return Object.is(one, other) ? [] : [path];
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function keysOf(schema: KeySchemaElement[] = []): Keys {
  const of = (type: string) => schema.find(({ KeyType }) => KeyType === type)?.AttributeName ?? "";
  return [of("HASH"), of("RANGE")];
}

function sorted(names: string[]): string {
  return names.sort().join(" ");
}

function split(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}

function records(value: unknown): Record<string, unknown>[] {
  return list(value).filter(isRecord);
}

function mapValues<In, Out>(
  from: Readonly<Record<string, In>>,
  map: (value: In) => Out,
): Record<string, Out> {
  return Object.fromEntries(Object.entries(from).map(([key, value]) => [key, map(value)]));
}

async function mapAsync<Out>(
  names: string[],
  map: (name: string) => Promise<Out>,
): Promise<Record<string, Out>> {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await map(name)] as const)));
}
