import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

interface Series {
  label: string;
  color: string;
}

/** A line chart over days. The same numbers are in a table beside it, for those who cannot see it. */
export function LineChart({
  days,
  values,
  series,
}: {
  days: number[];
  values: number[][];
  series: Series[];
}) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const host = element.current;
    if (!host) return;
    const muted = getComputedStyle(host).getPropertyValue("--muted").trim() || "#888";
    const line = getComputedStyle(host).getPropertyValue("--line").trim() || "#ccc";
    const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const plot = new uPlot(
      {
        width: host.clientWidth,
        height: 200,
        cursor: { y: false },
        legend: { live: true },
        scales: { y: { range: (_plot, _low, high) => [0, (high || 1) * 1.1] } },
        axes: [
          { ...axis, values: "{MMM} {D}" },
          { ...axis, size: 70, values: (_plot, ticks) => ticks.map((tick) => `$${tick}`) },
        ],
        series: [
          { value: "{YYYY}-{MM}-{DD}" },
          ...series.map(({ label, color }) => ({
            label,
            stroke: color,
            width: 2,
            fill: `${color}22`,
            points: { show: true, size: 6, fill: color },
            value: (_plot: uPlot, value: number | null) =>
              value === null ? "–" : `$${value.toPrecision(3)}`,
          })),
        ],
      },
      [days, ...values],
      host,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: 200 }));
    observer.observe(host);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [days, values, series]);
  return <div ref={element} className="chart" aria-hidden="true" />;
}

const bounds = [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
const names = ["0.1", "0.25", "0.5", "1", "2", "5", "10", "30", "more"];

/** A small histogram of durations with the same buckets everywhere, so that two of them can be compared. */
export function Histogram({ label, valuesMs }: { label: string; valuesMs: readonly number[] }) {
  const counts = names.map(() => 0);
  for (const value of valuesMs) {
    const found = bounds.findIndex((bound) => value <= bound);
    const index = found === -1 ? bounds.length : found;
    counts[index] = (counts[index] ?? 0) + 1;
  }
  const max = Math.max(1, ...counts);
  const sorted = [...valuesMs].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)];
  const text = `${label}: ${valuesMs.length} samples${median === undefined ? "" : `, median ${Math.round(median)} ms`}`;
  return (
    <figure className="histogram">
      <figcaption>
        <strong>{label}</strong>
        <span className="hint">
          {valuesMs.length === 0 ? "no samples" : `${valuesMs.length} · median ${Math.round(median ?? 0)} ms`}
        </span>
      </figcaption>
      <div role="img" aria-label={text} className="bars">
        {counts.map((count, index) => (
          <span key={names[index]} className="bar" title={`≤ ${names[index]} s: ${count}`}>
            <span style={{ height: `${(count / max) * 100}%` }} />
            <span className="bar-name" aria-hidden="true">
              {names[index]}
            </span>
          </span>
        ))}
      </div>
    </figure>
  );
}
