import { type MetricName, type Metrics, metricNamespace, serviceOf } from "@concierge/core";
import { currentContext, untilEnd } from "../context.ts";
import { createLines } from "./emf.ts";
import { mask } from "./mask.ts";

interface Collector {
  add(name: MetricName, value: number, dimensions: Readonly<Record<string, string>>): void;
  end(): void;
}

/**
 * Metrics as log lines in CloudWatch's Embedded Metric Format, so counting costs no API call. All counts of one
 * invocation, or of one message of a batch, are collected and printed when the work ends or at its deadline, so that a
 * function that is killed at its time limit loses none. Later counts, and counts outside any work, are printed at once.
 */
export function createMetrics(stage: string): Metrics {
  const collectors = new WeakMap<object, Collector>();
  return {
    count(name: MetricName, value = 1, dimensions: Readonly<Record<string, string>> = {}): void {
      const current = untilEnd(collectors, create);
      const { add, end } = current ?? create();
      add(name, value, dimensions);
      if (!current) end();
    },
  };

  function create(): Collector {
    const lines = createLines(metricNamespace, { service: serviceOf(stage) });
    return { add: lines.add, end: () => print(lines.take(currentContext())) };
  }
}

/** Not with `console`: Lambda prefixes its lines. */
function print(lines: readonly object[]): void {
  for (const line of lines) process.stdout.write(`${mask(JSON.stringify(line))}\n`);
}
