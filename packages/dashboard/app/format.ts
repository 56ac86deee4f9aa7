/** How values are shown. Pure, and takes `now`. */
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const steps: readonly [limitMs: number, unitMs: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [60_000, 1_000, "second"],
  [3_600_000, 60_000, "minute"],
  [86_400_000, 3_600_000, "hour"],
  [Number.POSITIVE_INFINITY, 86_400_000, "day"],
];

export function formatRelative(at: string, now: number): string {
  const differenceMs = Date.parse(at) - now;
  // A clock that is a little ahead must not show the future for what has happened.
  if (Math.abs(differenceMs) < 2_000) return "now";
  const [, unitMs, unit] = steps.find(([limitMs]) => Math.abs(differenceMs) < limitMs) ?? [
    0,
    1_000,
    "second",
  ];
  return relative.format(Math.round(differenceMs / unitMs), unit as Intl.RelativeTimeFormatUnit);
}

export function formatExact(at: string): string {
  return exact.format(new Date(at));
}

export function formatDuration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${(minutes / 1_440).toFixed(1)} d`;
}

export function formatUsd(value: number): string {
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(2)}`;
}

export function formatCount(value: number): string {
  return value.toLocaleString("en");
}

/** A metric's value in its own unit. */
export function formatMetric(value: number | null, unit: string): string {
  if (value === null) return "–";
  if (unit === "ratio") return `${Number((value * 100).toFixed(1))} %`;
  if (unit === "ms") return formatDuration(value);
  if (unit === "microusd") return formatUsd(value / 1_000_000);
  return Number.isInteger(value) ? formatCount(value) : value.toFixed(2);
}
