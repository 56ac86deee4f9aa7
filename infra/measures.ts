/** What alarms and dashboard look at, and how CloudWatch is asked for it: plain data, no IaC import here. */
import {
  catalogue,
  type Measure,
  type MetricDefinition,
  metricNamespace,
  serviceOf,
  type Term,
} from "@concierge/core";

/** A metric of ours, or one that AWS keeps of what the topology names. */
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

/** One number over time: a metric's, or what is calculated of several by the ids they have. */
export type Query = Source | { sources: Readonly<Record<string, Source>>; expression: string };

/** What resources are called once they are there. */
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

/** A metric's whole name: one dimension too many or too few is another metric, which has no data. */
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

/** How a success metric is asked for; shares come as percentages. */
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
  if (found === undefined) throw new Error(`"${name}" is not of the topology`);
  return found;
}
