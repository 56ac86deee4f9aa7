/**
 * What Concierge consists of, according to the topology and to the SST program; the local stack is in
 * `parity-local.ts`. A table's TTL is not included: the local engine has none.
 */
import { type FunctionDefinition, fileNames, type QueueSource, type Topology } from "../../infra/topology.ts";
import { all, arnOf, find, isRecord, list, type Program, read } from "./resources.ts";

export type Keys = readonly [hash: string, range: string];

export interface TableView {
  fields: Record<string, string>;
  keys: Keys;
  indexes: Record<string, IndexView>;
}

export interface IndexView {
  keys: Keys;
  /** `ALL`, or the attributes besides the keys, separated by spaces. */
  projection: string;
}

export interface QueueView {
  delaySeconds: number;
  visibilitySeconds: number;
  retentionSeconds: number;
  deadLetterRetentionSeconds: number;
  maxReceives: number;
}

export interface FunctionView {
  timeoutSeconds: number;
  memoryMb: number;
  /** Their names, separated by spaces. */
  variables: string;
  /** Types by name, as in `Resource`. */
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
      indexes: mapValues(
        indexes,
        ({ hash, range, projection }): IndexView => ({
          keys: [hash, range],
          projection: projection === "all" ? "ALL" : sorted([...projection]),
        }),
      ),
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
        records(read(table, "globalSecondaryIndexes")).map(
          ({ name, hashKey, rangeKey, projectionType, nonKeyAttributes }) => [
            name,
            {
              keys: [hashKey, rangeKey],
              projection: projectionType === "ALL" ? "ALL" : sorted(list(nonKeyAttributes).map(String)),
            },
          ],
        ),
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
        // Under mocks a type is prefixed by its parent's.
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

/** Where two views differ, by path. */
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

export function sorted(names: string[]): string {
  return names.sort().join(" ");
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
