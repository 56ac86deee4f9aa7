import type { Metrics, Task } from "@concierge/client";
import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { formatDuration, formatMetric } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Histogram } from "../ui/chart.tsx";
import { Failure, Loading, TableWrap, Time } from "../ui/parts.tsx";
import { PhaseBar, segmentsOf } from "../ui/timeline.tsx";
import { useRecentTasks } from "../use-recent.ts";
import { firstLine } from "./tasks.tsx";

const windows = ["1h", "24h", "7d"] as const;
const refreshEveryMs = 60_000;
const rows = 8;

type Item = Metrics["items"][number];

export function Health() {
  const { client, me } = useSignedIn();
  const results = useQueries({
    queries: windows.map((window) => ({
      queryKey: ["metrics", window],
      queryFn: ({ signal }: { signal: AbortSignal }) => client.metrics({ window }, { signal }),
      refetchInterval: refreshEveryMs,
    })),
  });
  const failed = results.find(({ error }) => error);
  const day = results[1]?.data?.items;
  const missed = day?.filter(({ met }) => met === false).length ?? 0;
  return (
    <>
      <div className="head">
        <h1>Health</h1>
        <span className="muted" role="status">
          {me.admin ? "All users" : "Your turns"} ·{" "}
          {missed === 0 ? "no target missed in 24 h" : `${missed} targets missed in 24 h`}
        </span>
      </div>
      {failed && <Failure error={failed.error} retry={() => void failed.refetch()} />}
      <section className="card" aria-label="Success metrics">
        <h2>Success metrics</h2>
        {day ? (
          <MetricTable items={day} byWindow={results.map(({ data }) => data?.items ?? [])} />
        ) : (
          <Loading what="metrics" />
        )}
      </section>
      <Timelines />
    </>
  );
}

function MetricTable({
  items,
  byWindow,
}: {
  items: readonly Item[];
  byWindow: readonly (readonly Item[])[];
}) {
  return (
    <TableWrap label="Success metrics table">
      <table>
        <thead>
          <tr>
            <th scope="col">Metric</th>
            <th scope="col" className="number">
              Target
            </th>
            {windows.map((window) => (
              <th key={window} scope="col" className="number">
                {window}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map(({ name, description, target, unit }) => (
            <tr key={name}>
              <th scope="row" className="metric">
                {name.replaceAll("_", " ")}
                <span className="hint">{description}</span>
              </th>
              <td className="number nowrap">
                {target ? `${target.op === ">=" ? "≥" : "≤"} ${formatMetric(target.value, unit)}` : "–"}
              </td>
              {byWindow.map((all, index) => {
                const item = all.find((one) => one.name === name);
                return (
                  <td key={windows[index]} className="number nowrap">
                    <Value item={item} />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </TableWrap>
  );
}

function Value({ item }: { item: Item | undefined }) {
  if (!item || item.value === null) return <span className="muted">–</span>;
  const look = item.met === null ? "" : item.met ? "met" : "missed";
  return (
    <span className={look} title={`${item.samples} samples`}>
      {formatMetric(item.value, item.unit)}
      {item.met !== null && (
        <>
          <span aria-hidden="true">{item.met ? " ✓" : " ✗"}</span>
          <span className="visually-hidden">{item.met ? ", met" : ", missed"}</span>
        </>
      )}
    </span>
  );
}

/** The three timelines: task, sandbox and stop. */
function Timelines() {
  const { query, tasks } = useRecentTasks();
  if (query.isPending) return <Loading what="timelines" />;
  const turns = tasks.slice(0, rows);
  const longestMs = Math.max(1, ...turns.map(totalMs));
  const placed = tasks
    .filter(({ sandbox, timings }) => sandbox && timings.provisionMs !== null)
    .slice(0, rows);
  const slowestMs = Math.max(1, ...placed.map(({ timings }) => timings.provisionMs ?? 0));
  const stops = tasks.filter(({ timings }) => timings.stopMs !== null).slice(0, rows);
  const slowestStopMs = Math.max(1, ...stops.map(({ timings }) => timings.stopMs ?? 0));
  const allStops = tasks.flatMap(({ timings }) => timings.stopMs ?? []);
  return (
    <>
      <Lane
        title="Task timeline"
        hint="created → provisioned → executed → completed"
        isEmpty={turns.length === 0}
      >
        {turns.map((task) => (
          <LaneRow key={task.id} task={task} value={formatDuration(totalMs(task))}>
            <PhaseBar task={task} scaleMs={longestMs} />
          </LaneRow>
        ))}
      </Lane>
      <Lane
        title="Sandbox timeline"
        hint="how each turn got its sandbox: reused, resumed, recreated or new"
        isEmpty={placed.length === 0}
      >
        {placed.map((task) => (
          <LaneRow
            key={task.id}
            task={task}
            value={`${task.sandbox?.origin} · epoch ${task.sandbox?.epoch} · ${formatDuration(task.timings.provisionMs)}`}
          >
            <div
              className={`lane-bar origin-${task.sandbox?.origin}`}
              style={{ width: `${Math.max(2, ((task.timings.provisionMs ?? 0) / slowestMs) * 100)}%` }}
            />
          </LaneRow>
        ))}
      </Lane>
      <Lane
        title="Stop timeline"
        hint="requested → looked up and recorded → killed → confirmed"
        isEmpty={stops.length === 0}
      >
        {stops.map((task) => (
          <LaneRow key={task.id} task={task} value={formatDuration(task.timings.stopMs)}>
            <div
              className="lane-bar phase-stopping"
              style={{ width: `${Math.max(2, ((task.timings.stopMs ?? 0) / slowestStopMs) * 100)}%` }}
            />
          </LaneRow>
        ))}
        <Histogram label="Stop latency" valuesMs={allStops} />
      </Lane>
    </>
  );
}

function totalMs(task: Task): number {
  return segmentsOf(task, Date.now()).reduce((sum, { durationMs }) => sum + durationMs, 0);
}

function Lane({
  title,
  hint,
  isEmpty,
  children,
}: {
  title: string;
  hint: string;
  isEmpty: boolean;
  children: ReactNode;
}) {
  return (
    <section className="card" aria-label={title}>
      <h2>
        {title} <span className="muted">· {hint}</span>
      </h2>
      {isEmpty ? (
        <p className="muted">Nothing yet. It fills as tasks run.</p>
      ) : (
        <div className="lanes">{children}</div>
      )}
    </section>
  );
}

function LaneRow({ task, value, children }: { task: Task; value: string; children: ReactNode }) {
  return (
    <div className="lane">
      <Link href={`/tasks/${task.id}`} className="lane-name">
        {firstLine(task.prompt)}
      </Link>
      <div className="lane-track">{children}</div>
      <span className="mono lane-value">{value}</span>
      <span className="hint">
        <Time at={task.createdAt} />
      </span>
    </div>
  );
}
