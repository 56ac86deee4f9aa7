/** The metrics of alarms and dashboard and their CloudWatch queries, as plain data without IaC imports. */
import {
  catalogue,
  type Measure,
  type MetricDefinition,
  metricNamespace,
  serviceOf,
  type Term,
} from "@concierge/core";

/** One of our metrics, or AWS's metric of a resource in the topology. */
export type Watched =
  | Term
  | { queue: string; metric: "ApproximateNumberOfMessagesVisible" | "ApproximateAgeOfOldestMessage" }
  | { function: string; metric: "Errors" | "Throttles" | "ConcurrentExecutions" | "Duration" }
  | { table: string; metric: "ReadThrottleEvents" | "WriteThrottleEvents" };

export type Statistic = "Sum" | "Average" | "Maximum" | "SampleCount" | "p50" | "p95" | "p99";

export interface Source {
  watched: Watched;
  statistic: Statistic;
}

/** One number over time: a metric, or an expression over several by their ids. */
export type Query = Source | { sources: Readonly<Record<string, Source>>; expression: string };

/** The names of deployed resources. */
export interface Names<Name> {
  stage: string;
  queues: Readonly<Record<string, Name>>;
  functions: Readonly<Record<string, Name>>;
  tables: Readonly<Record<string, Name>>;
}

export interface Identity<Name> {
  namespace: string;
  metricName: string;
  dimensions: Record<string, string | Name>;
}

/** The full name of a metric. With one dimension more or less it is another metric, without data. */
export function identify<Name>(
  watched: Watched,
  { stage, queues, functions, tables }: Names<Name>,
): Identity<Name> {
  const { metric } = watched;
  if ("queue" in watched)
    return {
      namespace: "AWS/SQS",
      metricName: metric,
      dimensions: { QueueName: named(queues, watched.queue) },
    };
  if ("function" in watched)
    return {
      namespace: "AWS/Lambda",
      metricName: metric,
      dimensions: { FunctionName: named(functions, watched.function) },
    };
  if ("table" in watched)
    return {
      namespace: "AWS/DynamoDB",
      metricName: metric,
      dimensions: { TableName: named(tables, watched.table) },
    };
  const { by }: MetricDefinition = catalogue[watched.metric];
  return {
    namespace: metricNamespace,
    metricName: metric,
    dimensions: {
      service: serviceOf(stage),
      ...(by && watched.is !== undefined && { [by.name]: watched.is }),
    },
  };
}

/** The query of a success metric. Shares are percentages. */
export function queryOf(measure: Measure): Query {
  if ("term" in measure) return { watched: measure.term, statistic: measure.statistic };
  const statistic = measure.as === "average for each" ? "Average" : "Sum";
  const named = (prefix: string, terms: readonly Term[]) =>
    terms.map((watched, at): [string, Source] => [`${prefix}${at}`, { watched, statistic }]);
  const [parts, wholes] = [named("part", measure.part), named("whole", measure.whole)];
  const sum = (entries: [string, Source][]) => entries.map(([id]) => `FILL(${id}, 0)`).join(" + ");
  const quotient = `(${sum(parts)}) / (${sum(wholes)})`;
  return {
    sources: Object.fromEntries([...parts, ...wholes]),
    expression: measure.as === "share" ? `100 * ${quotient}` : quotient,
  };
}

export function sourcesOf(query: Query): readonly Source[] {
  return "sources" in query ? Object.values(query.sources) : [query];
}

function named<Name>(names: Readonly<Record<string, Name>>, name: string): Name {
  const found = names[name];
  if (found === undefined) throw new Error(`"${name}" is not in the topology`);
  return found;
}
