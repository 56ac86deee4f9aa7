import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { formatCount, formatDuration, formatMetric, formatUsd } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Histogram, LineChart } from "../ui/chart.tsx";
import { Failure, Figure, Loading, TableWrap } from "../ui/parts.tsx";
import { useRecentTasks } from "../use-recent.ts";

const refreshEveryMs = 15_000;
const costsEveryMs = 60_000;
const originNames = ["reused", "resumed", "warm", "snapshot", "cold"] as const;
const series = [
  { label: "Concierge", color: "#4f6bed" },
  { label: "A sandbox per message", color: "#d9822b" },
];

export function PoolAndCost() {
  return (
    <>
      <div className="head">
        <h1>Pool and cost</h1>
      </div>
      <PoolNow />
      <IdleSessions />
      <InitTimes />
      <CostByDay />
    </>
  );
}

function PoolNow() {
  const { client } = useSignedIn();
  const pool = useQuery({
    queryKey: ["pool"],
    queryFn: ({ signal }) => client.pool({ signal }),
    refetchInterval: refreshEveryMs,
  });
  if (pool.error) return <Failure error={pool.error} retry={() => void pool.refetch()} />;
  if (!pool.data) return <Loading what="the pool" />;
  const { total, leased, idle, warm, creating, max, oldestIdleMs, reuseRate } = pool.data;
  const parts = [
    ["busy", leased, "running"],
    ["idle", idle, "succeeded"],
    ["warm", warm, "finalizing"],
    ["creating", creating, "provisioning"],
  ] as const;
  return (
    <section className="card" aria-label="Capacity">
      <h2>Capacity</h2>
      <div
        className="capacity"
        role="img"
        aria-label={`${total} of ${max} sandboxes: ${parts.map(([name, count]) => `${count} ${name}`).join(", ")}`}
      >
        {parts.map(([name, count, look]) => (
          <span
            key={name}
            className={`phase phase-${look}`}
            style={{ width: `${(count / Math.max(max, 1)) * 100}%` }}
            title={`${name}: ${count}`}
          />
        ))}
      </div>
      <dl className="figures">
        <Figure label="In use" value={`${formatCount(total)} of ${formatCount(max)}`} />
        {parts.map(([name, count]) => (
          <Figure key={name} label={name} value={formatCount(count)} />
        ))}
        <Figure label="Longest idle" value={formatDuration(oldestIdleMs)} />
        <Figure label="Reuse rate" value={formatMetric(reuseRate, "ratio")} note="target 80 % or more" />
      </dl>
    </section>
  );
}

function IdleSessions() {
  const { client, may } = useSignedIn();
  const sessions = useQuery({
    queryKey: ["sessions"],
    queryFn: ({ signal }) => client.sessions.list({ limit: 100 }, { signal }),
    refetchInterval: refreshEveryMs,
    enabled: may("sessions:read"),
  });
  const idle = (sessions.data?.items ?? [])
    .filter(({ sandbox, lease }) => sandbox && !lease)
    .sort((a, b) => (b.idleMs ?? 0) - (a.idleMs ?? 0));
  if (!may("sessions:read")) return null;
  return (
    <section className="card" aria-label="Idle sandboxes">
      <h2>Idle, next to go first</h2>
      {idle.length === 0 ? (
        <p className="muted">No sandbox of yours is idle.</p>
      ) : (
        <ol className="idle">
          {idle.slice(0, 10).map(({ key, idleMs, keptUntil }) => (
            <li key={key}>
              <span className="mono">{key}</span>
              <span className="mono">{formatDuration(idleMs)}</span>
              <span className="hint">{keptUntil ? "kept by its owner" : ""}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function InitTimes() {
  const { may } = useSignedIn();
  const { ended } = useRecentTasks();
  if (!may("tasks:read")) return null;
  return (
    <section className="card" aria-label="Time to get a sandbox">
      <h2>
        Time to get a sandbox <span className="muted">· by origin, your last 100 tasks</span>
      </h2>
      <div className="histograms">
        {originNames.map((origin) => (
          <Histogram
            key={origin}
            label={origin}
            valuesMs={ended.flatMap(({ sandbox, timings }) =>
              sandbox?.origin === origin && timings.provisionMs !== null ? [timings.provisionMs] : [],
            )}
          />
        ))}
      </div>
    </section>
  );
}

function CostByDay() {
  const { client } = useSignedIn();
  const costs = useQuery({
    queryKey: ["costs"],
    queryFn: ({ signal }) => client.costs({}, { signal }),
    refetchInterval: costsEveryMs,
  });
  const data = costs.data;
  const byDay = useMemo(() => {
    const days = new Map<string, { turns: number; used: number; perMessage: number }>();
    if (data)
      for (const day of daysBetween(data.from, data.to)) days.set(day, { turns: 0, used: 0, perMessage: 0 });
    for (const { day, turns, used, perMessage } of data?.items ?? []) {
      const sum = days.get(day) ?? { turns: 0, used: 0, perMessage: 0 };
      days.set(day, {
        turns: sum.turns + turns,
        used: sum.used + used.usd,
        perMessage: sum.perMessage + perMessage.usd,
      });
    }
    return [...days].sort(([a], [b]) => a.localeCompare(b));
  }, [data]);
  const lines = useMemo(
    () => ({
      days: byDay.map(([day]) => Date.parse(`${day}T00:00:00Z`) / 1_000),
      values: [byDay.map(([, { used }]) => used), byDay.map(([, { perMessage }]) => perMessage)],
    }),
    [byDay],
  );
  if (costs.error) return <Failure error={costs.error} retry={() => void costs.refetch()} />;
  if (!data) return <Loading what="costs" />;
  return (
    <section className="card" aria-label="Cost by day">
      <h2>
        Cost by day <span className="muted">· against a sandbox per message</span>
      </h2>
      <dl className="figures">
        <Figure label="Turns" value={formatCount(data.total.turns)} />
        <Figure label="Cost" value={formatUsd(data.total.used.usd)} />
        <Figure label="Sandbox per message" value={formatUsd(data.total.perMessage.usd)} />
        <Figure label="vCPU time saved" value={formatMetric(data.total.savedRatio, "ratio")} />
      </dl>
      <LineChart {...lines} series={series} />
      <details>
        <summary>As a table</summary>
        <TableWrap label="Cost by day table">
          <table>
            <thead>
              <tr>
                <th scope="col">Day</th>
                <th scope="col" className="number">
                  Turns
                </th>
                <th scope="col" className="number">
                  Cost
                </th>
                <th scope="col" className="number">
                  Sandbox per message
                </th>
              </tr>
            </thead>
            <tbody>
              {byDay.map(([day, { turns, used, perMessage }]) => (
                <tr key={day}>
                  <td>{day}</td>
                  <td className="number">{turns}</td>
                  <td className="number">{formatUsd(used)}</td>
                  <td className="number">{formatUsd(perMessage)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableWrap>
      </details>
      {data.prices.map(({ from, source }) => (
        <p key={from} className="hint">
          Prices from {from}: {source}.
        </p>
      ))}
    </section>
  );
}

function daysBetween(from: string, to: string): string[] {
  const dayMs = 86_400_000;
  const count = Math.min(400, (Date.parse(to) - Date.parse(from)) / dayMs + 1);
  return Array.from({ length: count }, (_, index) =>
    new Date(Date.parse(from) + index * dayMs).toISOString().slice(0, 10),
  );
}
