import { Metrics as EmbeddedMetrics, MetricUnit } from "@aws-lambda-powertools/metrics";
import { type MetricName, type Metrics, metricNamespace, serviceOf } from "@concierge/core";
import { currentContext } from "./context.ts";

/**
 * CloudWatch's Embedded Metric Format: a line of the log is a metric, so counting costs no write. Each is printed when it
 * is counted, not when the invocation ends: one that fails, or is ended by its time-out, has counted what it did.
 */
export function createMetrics(stage: string): Metrics {
  const embedded = new EmbeddedMetrics({ namespace: metricNamespace, serviceName: serviceOf(stage) });
  return {
    count(name: MetricName, value = 1, dimensions: Readonly<Record<string, string>> = {}): void {
      // For the service, and for each value of what it is by: who wants the sum has not to know the values.
      embedded.addDimensions({});
      if (Object.keys(dimensions).length > 0) embedded.addDimensions({ ...dimensions });
      for (const [field, known] of Object.entries(currentContext())) {
        if (!(field in dimensions)) embedded.addMetadata(field, String(known));
      }
      const unit = name.endsWith("_ms") ? MetricUnit.Milliseconds : MetricUnit.Count;
      embedded.addMetric(name, unit, value).publishStoredMetrics();
    },
  };
}
