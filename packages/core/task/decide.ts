import { createHash } from "node:crypto";
import {
  activityCapMs,
  claimMs,
  finalizeGiveUpMs,
  finalizeMs,
  reaperSlackMs,
  reapRetryMaxMs,
  reapRetryMs,
  retryProvisionMaxMs,
  retryProvisionMs,
  terminateRetryMaxMs,
  terminateRetryMs,
} from "../limits.ts";
import type { RunnerReport, Timer } from "../ports.ts";
import type { AgentReport } from "./report.ts";
import type { Push, Task, TaskError, TaskResult, TaskState } from "./schema.ts";
import { isTerminal } from "./schema.ts";

/** The claim id of a turn that its worker gave back, because nothing more could be done for now. */
export const givenBack = "given back";

export type ClaimVerdict =
  /** Our own write, whose response was lost. */
  | { kind: "mine" }
  | { kind: "take over"; isRetry: boolean }
  | { kind: "wait"; ms: number }
  | { kind: "nothing" };

/** What a worker does with a turn it could not claim. */
export function decideClaim(
  task: Task | undefined,
  turn: number,
  claimId: string,
  now: number,
): ClaimVerdict {
  if (!task || task.turn !== turn) return { kind: "nothing" };
  switch (task.state.status) {
    case "provisioning": {
      const { id, until } = task.state.claim;
      if (id === claimId) return { kind: "mine" };
      const left = until - now;
      return left >= 0 ? { kind: "wait", ms: left + 1 } : { kind: "take over", isRetry: id === givenBack };
    }
    case "queued":
    case "running":
    case "finalizing":
    case "stopping":
    case "succeeded":
    case "failed":
    case "stopped":
    case "timed_out":
      return { kind: "nothing" };
  }
}

export function isClaimedBy(task: Task | undefined, turn: number, claimId: string): boolean {
  return task?.turn === turn && task.state.status === "provisioning" && task.state.claim.id === claimId;
}

export type RunnerAction = "continue" | "stop" | "wait";

/** What a runner is told: `wait` until the launch is recorded, `stop` once its turn is ending or has ended. */
export function decideRunnerAction(task: Task | undefined, turn: number): RunnerAction {
  if (!task || task.turn !== turn || isTerminal(task.state.status)) return "stop";
  switch (task.state.status) {
    case "running":
    case "finalizing":
      return "continue";
    case "stopping":
      return "stop";
    default:
      return "wait";
  }
}

/** Why a turn ends for a reason other than its agent, and its status once death is proven. */
export interface EndCause {
  outcome: "stopped" | "timed_out" | "failed";
  error: TaskError;
}

export const causes = {
  stopped: cause("stopped", "stopped_by_user", "The task was stopped."),
  deadline: cause("timed_out", "deadline_exceeded", "The turn ran past its deadline."),
  inactivity: cause("failed", "inactivity_timeout", "The agent printed nothing for too long."),
  runnerLost: cause("failed", "agent_failed", "The runner ended without a report. It crashed or was killed."),
  budget: cause("failed", "budget_exceeded", "The task exceeded its budget."),
  dayBudget: cause("failed", "budget_exceeded", "Your tasks exceeded your limit for one day."),
} as const satisfies Record<string, EndCause>;

/** What a timer or the reaper does with a turn. */
export type DueAction =
  | { kind: "nothing" }
  | { kind: "again"; inMs: number }
  | { kind: "provision" }
  | { kind: "ask" }
  | { kind: "end" }
  | { kind: "terminate" }
  | { kind: "follow up" }
  | { kind: "settle" };

const nothing = { kind: "nothing" } as const;

/**
 * What a timer does. It carries only the turn, so a duplicate, late, early or outdated timer decides by what is stored.
 */
export function decideTimer(task: Task | undefined, timer: Timer, now: number): DueAction {
  if (!task || task.turn !== timer.turn) return nothing;
  const { status } = task.state;
  switch (timer.kind) {
    case "deadline":
      return isUnderWay(status) ? dueIn(task.deadlineAt - now, { kind: "end" }) : nothing;
    case "inactivity":
      if (status === "queued" || status === "provisioning")
        return { kind: "again", inMs: task.limits.inactivityMs };
      return status === "running" ? dueIn(silentAt(task) - now, { kind: "ask" }) : nothing;
    case "terminate":
      return status === "stopping" ? { kind: "terminate" } : nothing;
    case "finalize":
      return task.state.status === "finalizing"
        ? dueIn(task.state.finalizeBy - now, { kind: "settle" })
        : nothing;
  }
}

/** The stored time at which a timer acts. A retried stop has none. */
export function timerDueAt(task: Task, kind: Timer["kind"]): number | undefined {
  switch (kind) {
    case "deadline":
      return task.deadlineAt;
    case "inactivity":
      return silentAt(task);
    case "finalize":
      return task.state.status === "finalizing" ? task.state.finalizeBy : undefined;
    case "terminate":
      return undefined;
  }
}

/** What the reaper does with a due task: what a lost message or timer would have done. */
export function decideDue(task: Task, now: number): DueAction {
  switch (task.state.status) {
    case "queued":
      return now >= task.deadlineAt ? { kind: "end" } : { kind: "provision" };
    case "provisioning":
      if (now >= task.deadlineAt) return { kind: "end" };
      return dueIn(task.state.claim.until - now, { kind: "provision" });
    case "running":
      if (now >= task.deadlineAt) return { kind: "end" };
      return dueIn(silentAt(task) - now, { kind: "ask" });
    case "finalizing":
      return dueIn(task.state.finalizeBy - now, { kind: "settle" });
    case "stopping":
      return { kind: "terminate" };
    case "succeeded":
    case "failed":
    case "stopped":
    case "timed_out":
      return { kind: "follow up" };
  }
}

/**
 * When the reaper looks at this task again. Written before it acts, with growing delays, so a task that keeps failing
 * does not block the others.
 */
export function reapAgain(task: Task, now: number): Pick<Task, "dueAt" | "reaped"> {
  const { turn, reaped } = task;
  const { status } = task.state;
  const count = reaped?.turn === turn && reaped.status === status ? reaped.count + 1 : 1;
  const waitMs = Math.min(reapRetryMs * 2 ** Math.min(count - 1, 10), reapRetryMaxMs);
  return { dueAt: now + waitMs, reaped: { turn, status, count } };
}

/** When the reaper looks at a turn that no worker has claimed. */
export function queuedDueAt(now: number, deadlineAt: number): number {
  return Math.min(now + claimMs, deadlineAt + reaperSlackMs);
}

/** When the reaper looks at a running turn, if no timer has. */
export function runningDueAt(task: Activity & Pick<Task, "deadlineAt">): number {
  return Math.min(task.deadlineAt, silentAt(task)) + reaperSlackMs;
}

/**
 * What output writes besides its sequence number. `dueAt` moves at most twice per inactivity period, so output causes
 * few index writes.
 */
export function signOfLife(
  task: Task,
  sign: { lastActivityAt: number } | { aliveAt: number },
  now: number,
): Pick<Task, "aliveAt" | "dueAt"> & Partial<Pick<Task, "lastActivityAt">> {
  const alive = { ...task, ...sign };
  const movesDue = (task.dueAt ?? 0) - now < task.limits.inactivityMs / 2 + reaperSlackMs;
  return { ...sign, ...(movesDue && { dueAt: runningDueAt(alive) }) };
}

/** Whether a beat of an agent that waits for its model or a tool is worth a write. */
export function isNewSign(task: Task, now: number): boolean {
  const heardAt = Math.max(task.lastActivityAt, task.aliveAt ?? 0);
  return now - heardAt >= task.limits.inactivityMs / 2 && now < hungAt(task);
}

/** What the sandbox says about a turn that seems silent. */
export type SilenceVerdict = { lastActivityAt: number } | { aliveAt: number } | "silent" | "runner lost";

/**
 * Only evidence counts; asking moves nothing. Undelivered output is output. Waiting for the model or a tool counts as
 * work up to the cap, while the runner itself lives: a stopped or starved runner leaves an old timestamp. The agent
 * could forge this state, but the deadline still holds.
 */
export function decideSilence(task: Task, { launch, state }: RunnerReport, now: number): SilenceVerdict {
  if (launch === "exited") return "runner lost";
  const { inactivityMs } = task.limits;
  const outputAt = Math.min(state?.lastOutputAt ?? Number.NEGATIVE_INFINITY, now);
  if (outputAt > task.lastActivityAt && now - outputAt < inactivityMs) return { lastActivityAt: outputAt };
  if (!state || now >= hungAt(task)) return "silent";
  const isStale = state.at !== undefined && now - state.at >= Math.max(inactivityMs, staleRunnerMs);
  return !isStale && (state.undelivered || state.activity !== "none") ? { aliveAt: now } : "silent";
}

/** A live runner writes its state every few seconds. The sandbox's clock may differ from ours. */
const staleRunnerMs = 60_000;

/** When to retry acquiring a sandbox: exponential backoff with jitter. */
export function retryDelayMs(attempt: number, who: string, askedMs = 0): number {
  const most = Math.min(retryProvisionMs * 2 ** Math.min(attempt, 10), retryProvisionMaxMs);
  const [byte = 0] = createHash("sha256").update(`${who} ${attempt}`).digest();
  return Math.max(askedMs, Math.round(most * (0.5 + byte / 510)));
}

/** The pause before the next attempt to end a turn. */
export function terminateBackoffMs(attempts: number): number {
  return Math.min(terminateRetryMs * 2 ** Math.min(attempts, 10), terminateRetryMaxMs);
}

/** How the runner reports the end of a turn. */
export interface RunnerEnd extends AgentReport {
  lastSeq: number;
  exitCode: number | null;
  signal: string | null;
  reason:
    | "exited"
    | "deadline"
    | "inactivity"
    | "agent_missing"
    | "install_failed"
    | "clone_failed"
    | "runner_error";
  outputCutBytes: number;
  /** How long the agent's process ran. */
  agentMs?: number | undefined;
  text: string;
  detail?: string | undefined;
  /** The commit that holds the work, if there is one. */
  commit?: string | undefined;
  branch?: string | undefined;
  /** The outcome of a granted push. */
  pushed?: boolean | undefined;
}

/** The state a reported end leads to: final, or one whose death must be proven first. */
export function decideEnd(end: RunnerEnd, now: number): TaskState | EndCause {
  const { agentMs } = end;
  const ended = { endedAt: now, result: resultOf(end), ...(agentMs !== undefined && { agentMs }) };
  switch (end.reason) {
    case "deadline":
      return causes.deadline;
    case "inactivity":
      return causes.inactivity;
    case "clone_failed":
      return failure(now, null, {
        code: "provision_failed",
        detail: `The repository could not be cloned: ${end.detail ?? "git gave no reason"}`,
      });
    case "install_failed":
      return failure(now, ended.result, {
        code: "provision_failed",
        detail: `The agent could not be installed: ${end.detail ?? "no reason given"}`,
      });
    case "agent_missing":
    case "runner_error":
      return {
        ...failed({ code: "agent_failed", detail: end.detail ?? "The agent could not be started." }),
        ...ended,
      };
    case "exited":
      return end.exitCode === 0
        ? { status: "succeeded", ...ended }
        : { ...failed(describeExit(end)), ...ended };
  }
}

/** The final state of a turn whose push was granted, once the push's outcome is known. */
export function decidePushed(
  push: Push,
  outcome: "pushed" | "refused" | "timed out" | "unknown",
  now: number,
  detail = "The remote rejected the push.",
): TaskState {
  const { commit, branch, exitCode, text } = push;
  const result = { exitCode, text, commit, branch, pushed: outcome === "pushed" };
  switch (outcome) {
    case "pushed":
      return { status: "succeeded", endedAt: now, result };
    case "refused":
      return failure(now, result, { code: "push_failed", detail });
    case "timed out":
      return failure(now, result, { code: "finalize_timeout", detail: "The push did not arrive in time." });
    case "unknown":
      return failure(now, result, { code: "finalize_timeout", detail: unknownPush });
  }
}

const unknownPush =
  "The outcome of the push is unknown, because the remote did not answer. Check the branch.";

/** Whether to stop asking the remote about a push. */
export function isPushGivenUp(finalizeBy: number, now: number): boolean {
  return now >= finalizeBy - finalizeMs + finalizeGiveUpMs;
}

function failure(endedAt: number, result: TaskResult | null, error: TaskError): TaskState {
  return { ...failed(error), endedAt, result };
}

function failed(error: TaskError) {
  return { status: "failed", error } as const;
}

function resultOf({ exitCode, text, commit, branch }: RunnerEnd): TaskResult {
  return { exitCode, text, commit: commit ?? null, branch: branch ?? null, pushed: false };
}

function isUnderWay(status: TaskState["status"]): boolean {
  return status === "queued" || status === "provisioning" || status === "running";
}

type Activity = Pick<Task, "lastActivityAt" | "aliveAt" | "limits">;

/** When the turn counts as silent if nothing is heard until then. */
export function silentAt(task: Activity): number {
  const { lastActivityAt, aliveAt = 0, limits } = task;
  return Math.min(Math.max(lastActivityAt, aliveAt) + limits.inactivityMs, hungAt(task));
}

/** When the turn counts as hung, regardless of what it says it waits for. */
function hungAt({ lastActivityAt, limits }: Activity): number {
  return lastActivityAt + Math.max(activityCapMs, limits.inactivityMs);
}

function dueIn(leftMs: number, action: DueAction): DueAction {
  return leftMs > 0 ? { kind: "again", inMs: leftMs } : action;
}

function cause(outcome: EndCause["outcome"], code: TaskError["code"], detail: string): EndCause {
  return { outcome, error: { code, detail } };
}

function describeExit(end: RunnerEnd): TaskError {
  const how =
    end.exitCode === null ? `was killed by ${end.signal ?? "a signal"}` : `exited with ${end.exitCode}`;
  return { code: "agent_failed", detail: `The agent ${how}.` };
}
