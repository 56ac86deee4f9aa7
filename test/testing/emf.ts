/** One value as CloudWatch extracts it from a log line. */
export interface Datum {
  namespace: string;
  name: string;
  unit: string;
  dimensions: Readonly<Record<string, string>>;
  value: number;
  /** The rest of the line, for searching the log. */
  line: Readonly<Record<string, unknown>>;
}

interface Directive {
  Namespace: string;
  Dimensions: string[][];
  Metrics: { Name: string; Unit?: string }[];
}

const dimensionsMax = 30;
const metricsMax = 100;
const valuesMax = 100;

/** Reads lines as CloudWatch Logs does: a line without embedded metrics is text, an invalid one is lost. */
export function readMetrics(lines: readonly string[]): Datum[] {
  return lines.flatMap((text) => {
    // The local stack prefixes each line with the function's name.
    const line = parse(text.slice(Math.max(text.indexOf("{"), 0)));
    const directives = (line?._aws as { CloudWatchMetrics?: Directive[] } | undefined)?.CloudWatchMetrics;
    return line && directives ? directives.flatMap((directive) => read(directive, line)) : [];
  });
}

function read(directive: Directive, line: Record<string, unknown>): Datum[] {
  const { Timestamp } = line._aws as { Timestamp?: unknown };
  if (!Number.isInteger(Timestamp)) throw invalid("has no timestamp", line);
  return directive.Dimensions.flatMap((names) => {
    if (names.length > dimensionsMax) throw invalid("has too many dimensions", line);
    const dimensions = names.map((name): [string, string] => {
      const value = line[name];
      if (typeof value !== "string" || value === "") throw invalid(`has no dimension ${name}`, line);
      return [name, value];
    });
    if (directive.Metrics.length > metricsMax) throw invalid("has too many metrics", line);
    return directive.Metrics.flatMap(({ Name: name, Unit: unit = "None" }) =>
      valuesOf(line, name).map((value) => ({
        namespace: directive.Namespace,
        name,
        unit,
        dimensions: Object.fromEntries(dimensions),
        value,
        line,
      })),
    );
  });
}

/** A metric has a number, or a list of numbers of limited length. */
function valuesOf(line: Record<string, unknown>, name: string): number[] {
  const found = [line[name]].flat();
  const numbers = found.filter((value) => typeof value === "number" && Number.isFinite(value));
  if (numbers.length === 0 || numbers.length !== found.length) throw invalid(`has no number ${name}`, line);
  if (numbers.length > valuesMax) throw invalid(`has too many values of ${name}`, line);
  return numbers as number[];
}

/** A metric's identity: CloudWatch treats two that differ in one dimension as two metrics. */
export function identityOf({
  namespace,
  name,
  dimensions,
}: Pick<Datum, "namespace" | "name" | "dimensions">): string {
  const sorted = Object.entries(dimensions).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${namespace}/${name} ${sorted.map((pair) => pair.join("=")).join(",")}`;
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function invalid(what: string, line: unknown): Error {
  return new Error(`an embedded metric ${what}: ${JSON.stringify(line)}`);
}
