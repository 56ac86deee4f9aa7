/**
 * The CloudWatch namespace. Each stage is its own service, a dimension of every metric. Separate from the catalogue, so
 * that functions need not load that.
 */
export const metricNamespace = "Concierge";

export function serviceOf(stage: string): string {
  return `concierge-${stage}`;
}
