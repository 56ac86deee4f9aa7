/** The Embedded Metric Format: values that CloudWatch takes out of lines of the log. */

type Dimensions = Readonly<Record<string, string>>;

/** The most that CloudWatch takes of one metric, and of one directive. */
const valuesMax = 100;
const metricsMax = 100;

interface Metric {
  values: number[];
  dimensions: Dimensions;
}

interface Line {
  dimensions: Record<string, string>;
  metrics: Map<string, Metric>;
}

/**
 * As few lines as there can be. A line has one value of each dimension, and one list of values of each metric: what is
 * counted by another value of the same dimension goes to the next line, and what is by another dimension fits in the same.
 */
export function createLines(namespace: string, common: Dimensions) {
  let lines: Line[] = [];

  return {
    add(name: string, value: number, dimensions: Dimensions): void {
      const line = lines.find((one) => fits(one, name, dimensions)) ?? appended();
      Object.assign(line.dimensions, dimensions);
      const metric = line.metrics.get(name) ?? { values: [], dimensions };
      metric.values.push(value);
      line.metrics.set(name, metric);
    },
    /** What was counted, once; `fields` are not measured, and are there to be searched for. */
    take(fields: Readonly<Record<string, unknown>>): object[] {
      const taken = lines;
      lines = [];
      return taken.map((line) => formatted(line, fields));
    },
  };

  function appended(): Line {
    const line: Line = { dimensions: {}, metrics: new Map() };
    lines.push(line);
    return line;
  }

  function formatted({ dimensions, metrics }: Line, fields: Readonly<Record<string, unknown>>): object {
    const known = Object.entries(fields).map(([name, value]) => [name, String(value)]);
    const values = [...metrics].map(([name, metric]) => [name, oneOrAll(metric.values)]);
    return {
      _aws: { Timestamp: Date.now(), CloudWatchMetrics: directivesOf(metrics) },
      ...Object.fromEntries(known),
      ...common,
      ...dimensions,
      ...Object.fromEntries(values),
    };
  }

  /** One for each set of dimensions. A sum over all values of a dimension is asked for without knowing them. */
  function directivesOf(metrics: ReadonlyMap<string, Metric>): object[] {
    const always = Object.keys(common);
    const bySet = Map.groupBy(metrics, ([, { dimensions }]) => Object.keys(dimensions).sort().join());
    return [...bySet.values()].map((group) => {
      const own = Object.keys(group[0]?.[1].dimensions ?? {});
      return {
        Namespace: namespace,
        Dimensions: own.length > 0 ? [always, [...always, ...own]] : [always],
        Metrics: group.map(([Name]) => ({
          Name,
          Unit: Name.endsWith("_ms") ? "Milliseconds" : "Count",
        })),
      };
    });
  }
}

function fits({ dimensions: taken, metrics }: Line, name: string, dimensions: Dimensions): boolean {
  const known = metrics.get(name);
  if (!known && metrics.size >= metricsMax) return false;
  if (known && (known.values.length >= valuesMax || !isSame(known.dimensions, dimensions))) return false;
  return Object.entries(dimensions).every(([key, value]) => (taken[key] ?? value) === value);
}

function isSame(one: Dimensions, other: Dimensions): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

function oneOrAll(values: readonly number[]): number | readonly number[] {
  const [first = 0, ...others] = values;
  return others.length === 0 ? first : values;
}
