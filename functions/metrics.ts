import type { MetricName, Metrics } from "@concierge/core";

const namespace = "Concierge";

/** CloudWatch's Embedded Metric Format: a line of the log is a metric, so counting costs no write. */
export const metrics: Metrics = {
  count(name: MetricName, value = 1, dimensions: Readonly<Record<string, string>> = {}) {
    const unit = name.endsWith("_ms") ? "Milliseconds" : "Count";
    const definition = {
      Namespace: namespace,
      Dimensions: [Object.keys(dimensions)],
      Metrics: [{ Name: name, Unit: unit }],
    };
    console.log(
      JSON.stringify({
        _aws: { Timestamp: Date.now(), CloudWatchMetrics: [definition] },
        ...dimensions,
        [name]: value,
      }),
    );
  },
};
