import { type MetricName, type Metrics, metricNamespace, serviceOf } from "@concierge/core";
import { currentContext } from "./context.ts";

/**
 * CloudWatch's Embedded Metric Format: a line of the log is a metric, so counting costs no write. Each is printed when it
 * is counted, not when the invocation ends: one that fails, or is ended by its time-out, has counted what it did.
 */
export function createMetrics(stage: string): Metrics {
  const service = serviceOf(stage);
  return {
    count(name: MetricName, value = 1, dimensions: Readonly<Record<string, string>> = {}): void {
      const by = Object.keys(dimensions);
      const described = {
        Namespace: metricNamespace,
        // For the service, and for each value of what it is by: who wants the sum has not to know the values.
        Dimensions: [["service"], ...(by.length > 0 ? [["service", ...by]] : [])],
        Metrics: [{ Name: name, Unit: name.endsWith("_ms") ? "Milliseconds" : "Count" }],
      };
      const _aws = { Timestamp: Date.now(), CloudWatchMetrics: [described] };
      const context = Object.entries(currentContext()).map(([field, known]) => [field, String(known)]);
      const line = { _aws, ...Object.fromEntries(context), service, ...dimensions, [name]: value };
      process.stdout.write(`${JSON.stringify(line)}\n`);
    },
  };
}
