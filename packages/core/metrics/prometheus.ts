import type { MetricsView } from "./schema.ts";

/** The media type of Prometheus' text format. */
export const prometheusType = "text/plain; version=0.0.4; charset=utf-8";

/** The metrics in Prometheus' text format: a gauge per metric, and its target and samples. */
export function toPrometheus({ window, items }: MetricsView): string {
  const lines = items.flatMap(({ name, description, value, unit, target, met, samples }) => {
    const labels = { window, unit };
    return [
      ...gauge(`concierge_${name}`, description, labels, value),
      ...(target
        ? gauge(`concierge_${name}_target`, `Target of concierge_${name}`, { op: target.op }, target.value)
        : []),
      ...gauge(`concierge_${name}_met`, `1 if the target of concierge_${name} is met`, { window }, met),
      ...gauge(`concierge_${name}_samples`, `Samples of concierge_${name}`, { window }, samples),
    ];
  });
  return `${lines.join("\n")}\n`;
}

/** A metric without a value has no sample line, only its description. */
function gauge(
  name: string,
  help: string,
  labels: Readonly<Record<string, string>>,
  value: number | boolean | null,
): string[] {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  const head = [
    `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`,
    `# TYPE ${name} gauge`,
  ];
  return value === null ? head : [...head, `${name}{${pairs.join(",")}} ${Number(value)}`];
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
