import type { Task, TaskError, TaskResult, TaskState } from "./schema.ts";
import { isTerminal } from "./schema.ts";

export type ClaimVerdict =
  | { kind: "claim" }
  | { kind: "take over" }
  | { kind: "wait"; ms: number }
  | { kind: "nothing" };

/** What a worker does with a message that asks for a turn to be provisioned. */
export function decideClaim(task: Task | undefined, turn: number, now: number): ClaimVerdict {
  if (!task || task.turn !== turn) return { kind: "nothing" };
  switch (task.state.status) {
    case "queued":
      return { kind: "claim" };
    case "provisioning": {
      const left = task.state.claim.until - now;
      return left >= 0 ? { kind: "wait", ms: left + 1 } : { kind: "take over" };
    }
    case "running":
    case "succeeded":
    case "failed":
    case "timed_out":
      return { kind: "nothing" };
  }
}

export type RunnerAction = "continue" | "stop" | "wait";

/** What a runner is told: `wait` until the launch is on record, `stop` once its turn is over. */
export function decideRunnerAction(task: Task | undefined, turn: number): RunnerAction {
  if (!task || task.turn !== turn || isTerminal(task.state.status)) return "stop";
  return task.state.status === "running" ? "continue" : "wait";
}

/** How the runner says a turn ended. */
export interface RunnerEnd {
  lastSeq: number;
  exitCode: number | null;
  signal: string | null;
  reason: "exited" | "deadline" | "inactivity" | "agent_missing" | "runner_error";
  outputCutBytes: number;
  text: string;
  detail?: string | undefined;
}

export function decideEnd(end: RunnerEnd, now: number): TaskState {
  const result: TaskResult = {
    exitCode: end.exitCode,
    text: end.text,
    commit: null,
    branch: null,
    pushed: false,
  };
  const ended = { endedAt: now, result };
  switch (end.reason) {
    case "deadline":
      return {
        status: "timed_out",
        ...ended,
        error: { code: "deadline_exceeded", detail: "The turn ran past its deadline." },
      };
    case "inactivity":
      return {
        status: "failed",
        ...ended,
        error: { code: "inactivity_timeout", detail: "The agent was silent for too long." },
      };
    case "agent_missing":
    case "runner_error":
      return {
        status: "failed",
        ...ended,
        error: { code: "agent_failed", detail: end.detail ?? "The agent could not be run." },
      };
    case "exited":
      return end.exitCode === 0
        ? { status: "succeeded", ...ended }
        : { status: "failed", ...ended, error: describeExit(end) };
  }
}

function describeExit(end: RunnerEnd): TaskError {
  const how =
    end.exitCode === null ? `was ended by ${end.signal ?? "a signal"}` : `exited with ${end.exitCode}`;
  return { code: "agent_failed", detail: `The agent ${how}.` };
}
