import { type SecondaryIndex, topology } from "../../../infra/topology.ts";
import { all, arnOf, type Check, differs, find, list, type Program, read, setDiffers } from "../resources.ts";

export const tables: Check = (program) =>
  Object.entries(topology.table).flatMap(([name, { fields, primaryIndex, indexes, ttlField }]) => {
    const table = find(program, "table", `${name}Table`);
    const attributes = Object.entries(fields).map(([field, type]) => ({
      name: field,
      type: { string: "S", number: "N" }[type],
    }));
    const wantedIndexes = Object.entries(indexes).map(
      ([index, { hash, range, projection }]: [string, SecondaryIndex]) => ({
        name: index,
        hashKey: hash,
        rangeKey: range,
        ...projected(projection),
      }),
    );
    return [
      ...differs(`${name}'s fields`, read(table, "attributes"), attributes),
      ...differs(
        `${name}'s keys`,
        [read(table, "hashKey"), read(table, "rangeKey")],
        [primaryIndex.hash, primaryIndex.range],
      ),
      ...differs(`${name}'s indexes`, read(table, "globalSecondaryIndexes"), wantedIndexes),
      ...differs(`${name}'s TTL`, read(table, "ttl"), { attributeName: ttlField, enabled: true }),
      ...differs(`${name}'s point-in-time recovery`, read(table, "pointInTimeRecovery"), { enabled: true }),
      ...differs(`${name}'s billing`, read(table, "billingMode"), "PAY_PER_REQUEST"),
    ];
  });

function projected(projection: SecondaryIndex["projection"]) {
  if (projection === "all") return { projectionType: "ALL" };
  if (projection.length === 0) return { projectionType: "KEYS_ONLY" };
  return { projectionType: "INCLUDE", nonKeyAttributes: projection };
}

export const queues: Check = (program) => {
  const names = Object.keys(topology.queues).flatMap((name) => [`${name}Queue`, `${name}DlqQueue`]);
  return [
    ...setDiffers(
      "the program's queues",
      all(program, "queue").map(({ name }) => name),
      names,
    ),
    ...all(program, "queue").flatMap((queue) =>
      differs(`${queue.name}'s encryption`, read(queue, "sqsManagedSseEnabled"), true),
    ),
    ...Object.keys(topology.queues).flatMap((name) => queue(program, name)),
  ];
};

function queue(program: Program, name: string): string[] {
  const definition = Object.entries(topology.queues).find(([key]) => key === name)?.[1];
  if (!definition) return [`${name} is no queue of the topology`];
  const [own, dlq] = [find(program, "queue", `${name}Queue`), find(program, "queue", `${name}DlqQueue`)];
  const redrive = { deadLetterTargetArn: arnOf(dlq), maxReceiveCount: definition.maxReceives };
  return [
    ...differs(`${name}'s redrive`, JSON.parse(String(read(own, "redrivePolicy") ?? null)), redrive),
    ...differs(`${name}'s delay`, read(own, "delaySeconds"), definition.delayMs / 1000),
    ...differs(
      `${name}'s visibility timeout`,
      read(own, "visibilityTimeoutSeconds"),
      definition.visibilityTimeoutMs / 1000,
    ),
    ...differs(`${name}'s retention`, read(own, "messageRetentionSeconds"), definition.retentionMs / 1000),
    ...differs(
      `${name}'s dead letters' retention`,
      read(dlq, "messageRetentionSeconds"),
      definition.deadLetterRetentionMs / 1000,
    ),
  ];
}

/** How the program's timeouts and limits must relate to each other. */
export const sources: Check = (program) => {
  const wanted = Object.entries(topology.functions).flatMap(([name, definition]) =>
    "sources" in definition ? definition.sources.map((source) => ({ name, source })) : [],
  );
  const found = all(program, "source");
  return [
    ...differs("the number of event sources", found.length, wanted.length),
    ...wanted.flatMap(({ name, source }) => {
      const own = find(program, "queue", `${source.queue}Queue`);
      const fn = find(program, "function", `${name}Function`);
      const mapping = found.find((one) => read(one, "eventSourceArn") === arnOf(own));
      const reserved = read(fn, "reservedConcurrentExecutions");
      const concurrency = Number(read(mapping, "scalingConfig.maximumConcurrency"));
      const hiddenFor = Number(read(own, "visibilityTimeoutSeconds"));
      return [
        ...differs(`${source.queue}'s function`, read(mapping, "functionName"), arnOf(fn)),
        ...differs(`${source.queue}'s batch size`, read(mapping, "batchSize"), source.batchSize),
        ...differs(`${source.queue}'s concurrency`, concurrency, source.maxConcurrency),
        ...differs(
          `${source.queue}'s partial responses`,
          list(read(mapping, "functionResponseTypes")),
          source.partialResponses ? ["ReportBatchItemFailures"] : [],
        ),
        ...(hiddenFor > Number(read(fn, "timeout"))
          ? []
          : [`${source.queue} shows a message again while ${name} may still work on it`]),
        ...(typeof reserved === "number" && reserved < concurrency
          ? [`${name} has less concurrency than ${source.queue} asks for: its messages would be throttled`]
          : []),
      ];
    }),
  ];
};
