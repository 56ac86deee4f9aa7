/** A benchmark: each figure of Concierge beside the same thing done bare, in the same run. */
export interface Benchmark {
  name: string;
  about: string;
  run(): Promise<Figure[]>;
}

export interface Figure {
  what: string;
  unit: "ms" | "MB/s" | "KB" | "vCPU-s" | "writes" | "sandboxes" | "requests" | "units";
  value: number;
  baseline?: { what: string; value: number };
  target?: Target;
}

export interface Target {
  of: "value" | "ratio";
  atMost: number;
  /** A count, not a time: the same on every machine, so a wrong one fails the run. */
  firm?: boolean;
}

export interface Result extends Figure {
  bench: string;
  ratio: number | undefined;
  met: boolean | undefined;
}

export function judge(bench: string, figure: Figure): Result {
  const { value, baseline, target } = figure;
  const ratio = baseline && value / baseline.value;
  const judged = target?.of === "ratio" ? ratio : value;
  const met = target && judged !== undefined ? judged <= target.atMost : undefined;
  return { ...figure, bench, ratio, met };
}

/** The nearest rank: a measured value, never an interpolated one. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const value = sorted[Math.max(Math.ceil((percent / 100) * sorted.length) - 1, 0)];
  if (value === undefined) throw new Error("nothing was measured");
  return value;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** Alternates them, each first in turn, so that none has the quieter machine. */
export async function interleaved(
  rounds: number,
  contenders: readonly ((round: number) => Promise<void>)[],
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < contenders.length; place++) {
      await contenders[(round + place) % contenders.length]?.(round);
    }
  }
}

export function formatTable(results: readonly Result[]): string {
  const rows = [
    ["benchmark", "figure", "concierge", "baseline", "ratio", "target", ""],
    ...results.map((result) => [
      result.bench,
      result.what,
      quantity(result.value, result.unit),
      result.baseline ? `${quantity(result.baseline.value, result.unit)}  ${result.baseline.what}` : "",
      result.ratio === undefined ? "" : `${result.ratio.toFixed(2)}×`,
      formatTarget(result),
      result.met === undefined ? "" : result.met ? "met" : "missed",
    ]),
  ];
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "))
    .map((line) => line.trimEnd())
    .join("\n");
}

function formatTarget({ target, unit }: Result): string {
  if (!target) return "";
  return target.of === "ratio" ? `≤ ${target.atMost}×` : `≤ ${quantity(target.atMost, unit)}`;
}

function quantity(value: number, unit: Figure["unit"]): string {
  if (unit === "writes" || unit === "sandboxes") return String(value);
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}
