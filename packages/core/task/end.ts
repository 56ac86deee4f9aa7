import type { Deps, SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { terminateRetryMs } from "../limits.ts";
import { countStopBegun, countStopProven } from "../metrics/count.ts";
import type { TaskGuard } from "../ports.ts";
import { announce } from "../webhook/index.ts";
import { afterEnd } from "./after-end.ts";
import {
  decideEnd,
  decideRunnerAction,
  type EndCause,
  type RunnerEnd,
  terminateBackoffMs,
} from "./decide.ts";
import { settleReported } from "./finalize.ts";
import { when } from "./guards.ts";
import { proveDeath } from "./prove.ts";
import { wasReported } from "./read.ts";
import { reported } from "./report.ts";
import { type Actor, commandOf, type Task, type TaskError, type TaskState } from "./schema.ts";

/**
 * Ends a turn, whoever wants it ended: stop, deadline, inactivity, budget, reaper. First the one write from which no
 * push is granted and no output taken, then the death, then its proof, then the outcome. Gives the task as it then
 * is: ended, still `stopping` where the proof is out, or untouched where it was past being stopped.
 */
export async function endTurn(
  deps: SandboxDeps,
  task: Task,
  cause: EndCause,
  by: Actor,
  guard = when.mayStop(task.turn),
): Promise<Task> {
  const stopping = await beginStopping(deps, task, cause, by, guard);
  return stopping.state.status === "stopping" ? await terminate(deps, stopping, by) : stopping;
}

/** The write that ends it for everyone else. */
export async function beginStopping(
  deps: Deps,
  task: Task,
  cause: EndCause,
  by: Actor,
  guard = when.mayStop(task.turn),
): Promise<Task> {
  const now = deps.clock.now();
  const outcome = await deps.store.changeTask(task.id, guard, {
    set: {
      state: { status: "stopping", ...cause, attempts: 0, ...commandOf(task) },
      dueAt: now + terminateRetryMs,
    },
    phase: { turn: task.turn, status: "stopping", at: now, by, note: cause.error.code },
  });
  if (outcome.won) countStopBegun(deps, outcome.item, cause);
  return outcome.item ?? task;
}

/** Kills what a `stopping` turn started, and writes its outcome once that is proven; else sees to it that it is tried again. */
export async function terminate(deps: SandboxDeps, task: Task, by: Actor): Promise<Task> {
  const { store, clock, timers, metrics } = deps;
  const { turn, state } = task;
  if (state.status !== "stopping") return task;

  // Armed beside the attempt, not after it: whoever makes the attempt may die of it. Without a timer there is the reaper.
  const timer = { kind: "terminate", taskId: task.id, turn } as const;
  const armed = timers.arm(timer, terminateBackoffMs(state.attempts)).catch(() => {});
  const [proven] = await Promise.all([isProven(deps, task), armed]);
  const now = clock.now();
  if (!proven) {
    metrics.count("stop_unproven", 1, { cause: state.error.code });
    const tried = await store.changeTask(task.id, when.stopping(turn), {
      set: {
        state: { ...state, attempts: state.attempts + 1 },
        dueAt: now + terminateBackoffMs(state.attempts),
      },
    });
    return tried.item ?? task;
  }

  const { outcome, error } = state;
  const ended = await store.changeTask(task.id, when.stopping(turn), {
    set: { state: { status: outcome, endedAt: now, result: null, error } },
    remove: ["sealed", "dueAt"],
    phase: { turn, status: outcome, at: now, by },
  });
  if (ended.won) {
    countStopProven(deps, ended.item, error.code);
    await announce(deps, ended.item);
  }
  return ended.item ?? task;
}

/** The turn is over and there is nothing to kill: it never ran, or its sandbox is gone. */
export async function failTurn(
  deps: Deps,
  task: Task,
  guard: TaskGuard,
  error: TaskError,
  by: Actor,
): Promise<void> {
  const now = deps.clock.now();
  const failed = await deps.store.changeTask(task.id, guard, {
    set: { state: { status: "failed", endedAt: now, result: null, error } },
    remove: ["sealed", "dueAt"],
    phase: { turn: task.turn, status: "failed", at: now, by, note: error.code },
  });
  if (failed.won) await afterEnd(deps, failed.item);
}

/** The runner says its agent has ended, and that every batch before was taken. */
export async function reportEnd(
  deps: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  end: RunnerEnd,
): Promise<"done" | "stop" | "wait"> {
  const { store, clock, timers } = deps;
  if (end.pushed !== undefined) return await settleReported(deps, { taskId, turn }, end);

  const verdict = decideEnd(end, clock.now());
  const task = await store.getTask(taskId);
  const news = task ? reported(task, end, clock.now()) : {};
  const outcome =
    "outcome" in verdict
      ? await store.changeTask(
          taskId,
          when.saidEverything(turn, end.lastSeq),
          stoppingChange(deps, turn, verdict, { ...news, task }),
        )
      : await store.changeTask(
          taskId,
          when.saidEverything(turn, end.lastSeq),
          endedChange(deps, turn, verdict, end, news),
        );
  if (!outcome.won) {
    if (wasReported(outcome.item, turn)) return "done";
    const action = decideRunnerAction(outcome.item, turn);
    return action === "continue" ? "wait" : action;
  }

  // The runner killed its agent by its own word; the proof is ours to find.
  if ("outcome" in verdict) {
    countStopBegun(deps, outcome.item, verdict);
    await timers.arm({ kind: "terminate", taskId, turn }, 0);
  } else await afterEnd(deps, outcome.item);
  return "done";
}

type News = ReturnType<typeof reported>;

function stoppingChange(
  { clock }: Deps,
  turn: number,
  cause: EndCause,
  { task, ...news }: News & { task: Task | undefined },
) {
  const now = clock.now();
  const state = { status: "stopping", ...cause, attempts: 0, ...(task && commandOf(task)) } as const;
  return {
    set: { state, dueAt: now + terminateRetryMs, ...news },
    phase: { turn, status: "stopping", at: now, by: "runner", note: cause.error.code } as const,
  };
}

function endedChange({ clock, config }: Deps, turn: number, state: TaskState, end: RunnerEnd, news: News) {
  const now = clock.now();
  return {
    set: { state, lastActivityAt: now, ...news },
    remove: ["sealed", "dueAt", ...(hasLostTrack(state, end) ? (["conversation"] as const) : [])] as const,
    phase: { turn, status: state.status, at: now, by: "runner" } as const,
    ...(end.outputCutBytes > 0 && {
      notice: {
        code: "output_cut",
        detail: `${end.outputCutBytes} bytes of output were beyond the cap of ${config.maxOutputBytes} and are not kept.`,
        turn,
        at: now,
      },
    }),
  };
}

/** An agent that failed without a word of its conversation could not go on with it: the next turn's is replayed. */
function hasLostTrack({ status }: TaskState, { conversationId }: RunnerEnd): boolean {
  return status === "failed" && conversationId === undefined;
}

async function isProven(deps: SandboxDeps, task: Task): Promise<boolean> {
  try {
    return await proveDeath(deps, task);
  } catch (error) {
    if (error instanceof ProviderError) return false;
    throw error;
  }
}
