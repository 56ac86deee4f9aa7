import type { Deps } from "../deps.ts";
import type { Timer } from "../ports.ts";
import { type EndCause, silentAt, timerDueAt } from "../task/decide.ts";
import type { Task } from "../task/schema.ts";
import { timingsOf } from "../task/view.ts";

type Counting = Pick<Deps, "metrics" | "clock">;

/** A turn has ended. The outcome says how; the phases say how long it took. */
export function countTurnEnd({ metrics }: Counting, task: Task): void {
  const { state, usage } = task;
  if (!("endedAt" in state)) return;
  const phases = phasesOf(task);
  const { queuedMs, provisionMs, agentMs } = timingsOf(phases);
  metrics.count("turn_ended", 1, { outcome: "error" in state ? state.error.code : state.status });
  if (phases[0]) metrics.count("turn_ms", Math.max(state.endedAt - phases[0].at, 0));
  if (queuedMs !== null) metrics.count("queued_ms", queuedMs);
  if (provisionMs !== null) metrics.count("provision_ms", provisionMs);
  if (agentMs !== null) metrics.count("agent_ms", agentMs);
  if (usage) metrics.count("agent_cost_microusd", Math.round(usage.costUsd * 1e6));
}

/** The turn is recorded as ending. */
export function countStopBegun({ metrics, clock }: Counting, task: Task, { error }: EndCause): void {
  metrics.count("stop_begun", 1, { cause: error.code });
  if (error.code !== "inactivity_timeout") return;
  metrics.count("stuck_late_ms", Math.max(clock.now() - silentAt(task), 0));
}

export function countStopProven(deps: Counting, task: Task, cause: string): void {
  const { stopMs } = timingsOf(phasesOf(task));
  deps.metrics.count("stop_proven", 1, { cause });
  if (stopMs !== null) deps.metrics.count("stop_ms", stopMs, { cause });
}

/** A runner was told to stop in the response to its own request. */
export function countTold({ metrics, clock }: Counting, task: Task | undefined, turn: number): void {
  const since = task && phasesOf(task).findLast(({ status }) => status === "stopping")?.at;
  const reason = reasonToStop(task, turn);
  metrics.count("cancellation_told", 1, { reason });
  if (reason === "stopping" && since !== undefined)
    metrics.count("cancellation_told_ms", Math.max(clock.now() - since, 0));
}

function reasonToStop(task: Task | undefined, turn: number): string {
  if (!task) return "unknown";
  if (task.turn !== turn) return "superseded";
  return task.state.status === "stopping" ? "stopping" : "ended";
}

/** How long after its stored time a timer acted. A retry has no stored time. */
export function countLateness({ metrics, clock }: Counting, task: Task, { kind }: Timer): void {
  const dueAt = timerDueAt(task, kind);
  if (dueAt !== undefined) metrics.count("timer_late_ms", Math.max(clock.now() - dueAt, 0), { kind });
}

function phasesOf({ phases, turn }: Task) {
  return phases.filter((phase) => phase.turn === turn);
}
