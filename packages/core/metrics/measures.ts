import type { Task } from "../task/schema.ts";
import { timingsOf } from "../task/view.ts";
import type { Counters } from "../usage/schema.ts";
import type { MetricName } from "./catalogue.ts";
import { bucketOf, percentile } from "./histogram.ts";
import {
  type Measure,
  type SuccessMetric,
  type SuccessMetricName,
  successMetrics,
  type Term,
} from "./targets.ts";

/** One value of a metric, with the value of its dimension if it has one. */
export type Sample = readonly [metric: MetricName, value: number, is?: string];

/** What is true right now, for metrics that are not counted. */
export interface Gauges {
  pool_sandboxes: number;
  pool_users: number;
}

export interface MeasuredMetric {
  name: SuccessMetricName;
  description: string;
  value: number | null;
  unit: string;
  target: { op: ">=" | "<="; value: number } | null;
  met: boolean | null;
  samples: number;
}

type Statistic = "sum" | "average" | "percentile";

/** Every term of a success metric and what has to be counted of it. */
const counted: readonly { term: Term; statistic: Statistic }[] = Object.values<SuccessMetric>(
  successMetrics,
).flatMap(({ measure }) => {
  if ("part" in measure)
    return [...measure.part, ...measure.whole].map((term) => ({ term, statistic: "sum" as const }));
  return [{ term: measure.term, statistic: statisticOf(measure) }];
});

/** What an ended turn adds to the success metrics. Everything comes from the task, so a repeated follow-up agrees. */
export function samplesOf(task: Task): Sample[] {
  const { state, turn, sandbox, startedAt, notices } = task;
  if (!("endedAt" in state)) return [];
  const phases = task.phases.filter((phase) => phase.turn === turn);
  const code = "error" in state ? state.error.code : state.status;
  const queuedAt = phases[0]?.at ?? state.endedAt;
  const hasLost = notices.some((notice) => notice.turn === turn && notice.code === "context_lost");
  const isContinued = turn > 1 && startedAt !== undefined;
  const tally = task.tally?.turn === turn ? task.tally : undefined;
  return [
    ["turn_ended", 1, code],
    ["turn_ms", Math.max(state.endedAt - queuedAt, 0)],
    ...(isContinued ? ([["turn_continued", 1, hasLost ? "lost" : "kept"]] as const) : []),
    ...(sandbox && startedAt !== undefined ? sandboxSamples(sandbox) : []),
    ...stopSamples(phases, code, startedAt !== undefined, tally?.stopAttempts ?? 1),
    ...(tally?.recreatesFailed ? ([["recreated", tally.recreatesFailed, "failed"]] as const) : []),
    ...(tally?.loops ? ([["reinstall_loop", tally.loops]] as const) : []),
    ...(tally?.falseSilences ? ([["silence_asked", tally.falseSilences, "alive"]] as const) : []),
    ...(tally?.stuckLateMs === undefined ? [] : ([["stuck_late_ms", tally.stuckLateMs]] as const)),
  ];
}

function sandboxSamples({ origin, initMs = 0, replaced }: NonNullable<Task["sandbox"]>): Sample[] {
  return [
    ["room_given", 1, origin],
    ["room_ms", initMs, origin],
    ...(origin === "reused" ? ([["health_healthy", 1]] as const) : []),
    ...(origin === "resumed" ? ([["health_resumable", 1]] as const) : []),
    ...(replaced === "gone"
      ? ([
          ["health_gone", 1],
          ["recreated", 1, "done"],
        ] as const)
      : []),
  ];
}

/** A turn that passed through `stopping` ended with its proof; the attempts before the last one were without. */
function stopSamples(phases: Task["phases"], code: string, hasRun: boolean, attempts: number): Sample[] {
  const { stopMs } = timingsOf(phases);
  if (stopMs === null) return [];
  return [
    ["stop_begun", 1, code],
    ["stop_proven", 1, code],
    ["stop_ms", stopMs, code],
    ...(attempts > 1 ? ([["stop_unproven", attempts - 1, code]] as const) : []),
    ...(hasRun ? ([["cancellation_told", 1, "stopping"]] as const) : []),
  ];
}

/** The counters that these samples move: only those that a success metric needs. Names fit an update expression. */
export function countersOf(samples: readonly Sample[]): Counters {
  const counters: Record<string, number> = {};
  const add = (name: string, by: number) => {
    counters[name] = (counters[name] ?? 0) + by;
  };
  const wanted = new Map(
    counted.map(({ term, statistic }) => [`${nameOf(term)} ${statistic}`, { term, statistic }]),
  );
  for (const [metric, value, is] of samples)
    for (const { term, statistic } of wanted.values()) {
      if (term.metric !== metric || (term.is !== undefined && term.is !== is)) continue;
      const name = nameOf(term);
      if (statistic === "sum") add(name, Math.round(value));
      if (statistic === "percentile") add(`${name}_b${bucketOf(value)}`, 1);
      if (statistic !== "average") continue;
      add(`${name}_sum`, Math.round(value));
      add(`${name}_n`, 1);
    }
  return counters;
}

export function sumOf(all: readonly Counters[]): Counters {
  const sum: Record<string, number> = {};
  for (const counters of all)
    for (const [name, value] of Object.entries(counters)) sum[name] = (sum[name] ?? 0) + value;
  return sum;
}

/** Every success metric from the counters of a window. */
export function measured(counters: Counters, gauges: Gauges): MeasuredMetric[] {
  return Object.entries<SuccessMetric>(successMetrics).map(([name, { says, measure, target }]) => {
    const { value, samples } = valueIn(measure, counters, gauges);
    const isKnown = value !== null && target !== null && samples > 0;
    return {
      name: name as SuccessMetricName,
      description: says,
      value,
      unit: unitOf(measure),
      target: target && boundOf(target),
      met: isKnown ? isMet(value, target) : null,
      samples,
    };
  });
}

function valueIn(
  measure: Measure,
  counters: Counters,
  gauges: Gauges,
): { value: number | null; samples: number } {
  if ("part" in measure) {
    const isLive = measure.as === "average for each";
    const from: Counters = isLive ? { ...gauges } : counters;
    const total = (terms: readonly Term[]) => terms.reduce((sum, term) => sum + (from[nameOf(term)] ?? 0), 0);
    const whole = total(measure.whole);
    return { value: whole === 0 ? null : total(measure.part) / whole, samples: whole };
  }
  const name = nameOf(measure.term);
  switch (measure.statistic) {
    case "Sum":
      // Something that did not happen in any of these turns.
      return { value: counters[name] ?? 0, samples: counters.turn_ended ?? 0 };
    case "Average": {
      if (measure.term.metric === "pool_sandboxes") return { value: gauges.pool_sandboxes, samples: 1 };
      const samples = counters[`${name}_n`] ?? 0;
      return { value: samples === 0 ? null : (counters[`${name}_sum`] ?? 0) / samples, samples };
    }
    case "p95":
    case "p99": {
      const buckets = bucketsOf(counters, `${name}_b`);
      const samples = [...buckets.values()].reduce((sum, count) => sum + count, 0);
      const value = percentile(buckets, measure.statistic === "p95" ? 0.95 : 0.99);
      return { value: value === null ? null : Math.round(value), samples };
    }
  }
}

function bucketsOf(counters: Counters, prefix: string): Map<number, number> {
  const found = Object.entries(counters).filter(([name]) => name.startsWith(prefix));
  return new Map(found.map(([name, count]) => [Number(name.slice(prefix.length)), count]));
}

function nameOf({ metric, is }: Term): string {
  return is === undefined ? metric : `${metric}__${is}`;
}

function statisticOf({ statistic }: Extract<Measure, { term: Term }>): Statistic {
  if (statistic === "Sum") return "sum";
  return statistic === "Average" ? "average" : "percentile";
}

function unitOf(measure: Measure): string {
  if ("part" in measure && measure.as === "share") return "ratio";
  const { metric } = "part" in measure ? (measure.part[0] ?? { metric: "" }) : measure.term;
  if (metric.endsWith("_ms")) return "ms";
  return metric.endsWith("_microusd") ? "microusd" : "count";
}

type Target = NonNullable<SuccessMetric["target"]>;

function boundOf(target: Target): NonNullable<MeasuredMetric["target"]> {
  return "atLeast" in target ? { op: ">=", value: target.atLeast } : { op: "<=", value: target.atMost };
}

function isMet(value: number, target: Target): boolean {
  return "atLeast" in target ? value >= target.atLeast : value <= target.atMost;
}
