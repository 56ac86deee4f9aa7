import { type MetricName, type Metrics, metricNamespace, serviceOf } from "@concierge/core";
import { currentContext, untilEnd } from "./context.ts";
import { createLines } from "./emf.ts";
import { mask } from "./mask.ts";

interface Counted {
  add(name: MetricName, value: number, dimensions: Readonly<Record<string, string>>): void;
  end(): void;
}

/**
 * CloudWatch's Embedded Metric Format: a line of the log is a metric, so counting costs no write. What is counted in one
 * invocation, or for one message of a batch, is one line. It is printed when the work ends, whether it failed or not, and
 * at its deadline: a function that is killed for its time has counted what it did. What is counted later, or outside of
 * any work, is printed at once.
 */
export function createMetrics(stage: string): Metrics {
  const counted = new WeakMap<object, Counted>();
  return {
    count(name: MetricName, value = 1, dimensions: Readonly<Record<string, string>> = {}): void {
      const current = untilEnd(counted, create);
      const { add, end } = current ?? create();
      add(name, value, dimensions);
      if (!current) end();
    },
  };

  function create(): Counted {
    const lines = createLines(metricNamespace, { service: serviceOf(stage) });
    return { add: lines.add, end: () => print(lines.take(currentContext())) };
  }
}

/** Not by the console, which Lambda puts its own words before. */
function print(lines: readonly object[]): void {
  for (const line of lines) process.stdout.write(`${mask(JSON.stringify(line))}\n`);
}
