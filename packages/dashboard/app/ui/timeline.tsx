import type { Task, TaskEvent, TaskStatus } from "@concierge/client";
import { formatDuration, formatExact } from "../format.ts";
import { isActive, Time, useNow } from "./parts.tsx";

type Step = Extract<TaskEvent, { type: "progress" }>;

interface Segment {
  status: TaskStatus;
  at: string;
  by: string;
  note?: string | undefined;
  durationMs: number;
}

/** The phases of a task's current turn with their durations. The last one lasts until now, or until the end. */
export function segmentsOf(task: Task, now: number): Segment[] {
  const phases = task.phases.filter(({ turn }) => turn === task.turn);
  return phases.map((phase, index) => {
    const next = phases[index + 1];
    const isLast = next === undefined;
    const until = next ? Date.parse(next.at) : isActive(task) ? now : Date.parse(phase.at);
    return {
      ...phase,
      durationMs: isLast && !isActive(task) ? 0 : Math.max(0, until - Date.parse(phase.at)),
    };
  });
}

export function PhaseBar({ task, scaleMs }: { task: Task; scaleMs?: number }) {
  const now = useNow();
  const segments = segmentsOf(task, now).filter(({ durationMs }) => durationMs > 0);
  const totalMs = segments.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const label = segments
    .map(({ status, durationMs }) => `${status} ${formatDuration(durationMs)}`)
    .join(", ");
  return (
    <div
      className="phase-bar"
      role="img"
      aria-label={label || "no phases"}
      style={{ width: scaleMs ? `${Math.max(2, (totalMs / scaleMs) * 100)}%` : "100%" }}
    >
      {segments.map(({ status, at, durationMs }) => (
        <span
          key={`${status}${at}`}
          className={`phase phase-${status}`}
          style={{ flexGrow: Math.max(durationMs, totalMs / 100) }}
          title={`${status}: ${formatDuration(durationMs)}`}
        />
      ))}
    </div>
  );
}

export function Timeline({ task, steps }: { task: Task; steps: readonly Step[] }) {
  const now = useNow();
  const segments = segmentsOf(task, now);
  const own = steps.filter(({ turn }) => turn === task.turn);
  return (
    <>
      <PhaseBar task={task} />
      <ol className="timeline">
        {segments.map(({ status, at, by, note, durationMs }, index) => {
          const next = segments[index + 1]?.at;
          const inside = own.filter((step) => step.at >= at && (next === undefined || step.at < next));
          return (
            <li key={`${status}${at}`} className={`status-${status}`}>
              <span className="dot" aria-hidden="true" />
              <span className="timeline-name">{status.replace("_", " ")}</span>
              <span className="mono timeline-duration">
                {durationMs > 0 ? formatDuration(durationMs) : ""}
              </span>
              <span className="hint" title={formatExact(at)}>
                by {by}
                {note ? ` · ${note.replaceAll("_", " ")}` : ""}
              </span>
              {inside.length > 0 && (
                <ol className="steps">
                  {inside.map((step, position) => {
                    const end = inside[position + 1]?.at ?? next;
                    const stepMs = end ? Date.parse(end) - Date.parse(step.at) : now - Date.parse(step.at);
                    return (
                      <li key={step.cursor}>
                        <span>{step.step}</span>
                        <span className="mono timeline-duration">{formatDuration(Math.max(0, stepMs))}</span>
                        <span className="hint">{step.detail}</span>
                      </li>
                    );
                  })}
                </ol>
              )}
            </li>
          );
        })}
      </ol>
    </>
  );
}

/**
 * A stop: when it was requested, when it was recorded (no push is granted from there on), and when every process was
 * killed and that was proven. The API does not report the kill on its own.
 */
export function StopMoments({ task, requestedAt }: { task: Task; requestedAt: number | undefined }) {
  const phases = task.phases.filter(({ turn }) => turn === task.turn);
  const recorded = phases.find(({ status }) => status === "stopping");
  if (!recorded && requestedAt === undefined) return null;
  const recordedAt = recorded ? Date.parse(recorded.at) : undefined;
  const proven = isActive(task) ? undefined : phases.at(-1);
  const lookupMs =
    recordedAt !== undefined && requestedAt !== undefined ? Math.max(0, recordedAt - requestedAt) : undefined;
  return (
    <ol className="moments" aria-label="Stop" aria-live="polite">
      <li className="done">
        <strong>Requested</strong>
        <span className="hint">{recorded ? <Time at={recorded.at} /> : "now"}</span>
      </li>
      <li className={recorded ? "done" : "open"}>
        <strong>Recorded</strong>
        <span className="hint">
          {recorded
            ? `no push from here on${lookupMs === undefined ? "" : ` · ${formatDuration(lookupMs)}`}`
            : "waiting"}
        </span>
      </li>
      <li className={proven ? "done" : "open"}>
        <strong>Killed and proven</strong>
        <span className="hint">
          {proven && recordedAt !== undefined
            ? `no process is left · ${formatDuration(Date.parse(proven.at) - recordedAt)}`
            : "killing, and checking that no process is left"}
        </span>
      </li>
    </ol>
  );
}
