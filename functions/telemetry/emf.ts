/** CloudWatch's Embedded Metric Format: metric values inside log lines. */

type Dimensions = Readonly<Record<string, string>>;

/** CloudWatch's limits for one metric and for one directive. */
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
 * Collects values into as few lines as possible. A line has one value per dimension and one list of values per metric. So
 * another value of the same dimension needs another line, and another dimension does not.
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
    /** Returns and clears the collected lines. `fields` are added to each, for searching. */
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

  /** One directive per set of dimensions, and one without them, so that sums need not know the values. */
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
