/**
 * Where metrics are in CloudWatch: each stage is a service of its own, which is a dimension of every metric.
 * Apart from the catalogue, which functions then need not carry.
 */
export const metricNamespace = "Concierge";

export function serviceOf(stage: string): string {
  return `concierge-${stage}`;
}
