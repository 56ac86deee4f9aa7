import type { Deps, EndingDeps, SandboxDeps } from "../deps.ts";
import { terminateRetryMs } from "../limits.ts";
import { countStopBegun, countStopProven } from "../metrics/count.ts";
import type { TaskGuard } from "../ports.ts";
import { countSpend } from "../users/spend.ts";
import { maskTexts, turnSecrets } from "./accept-output.ts";
import {
  decideEnd,
  decideRunnerAction,
  type EndCause,
  type RunnerEnd,
  silentAt,
  terminateBackoffMs,
} from "./decide.ts";
import { settleReported } from "./finalize.ts";
import { ended, requestFollowUp, shortened } from "./follow-up.ts";
import { when } from "./guards.ts";
import { closeNetwork } from "./network.ts";
import { proveDeath } from "./prove.ts";
import { wasReported } from "./read.ts";
import { reported } from "./report.ts";
import { type Actor, commandOf, type Task, type TaskError, type TaskState, tallied } from "./schema.ts";

/**
 * Ends a turn for stop, deadline, inactivity, budget or reaper. Order: the write after which no push is granted and no
 * output accepted, the kill, its proof, the outcome. Returns the task: ended, still `stopping` without proof, or
 * unchanged if it could no longer be stopped.
 */
export async function endTurn(
  deps: SandboxDeps,
  task: Task,
  cause: EndCause,
  by: Actor,
  guard = when.mayStop(task.turn),
): Promise<Task> {
  const { task: stopping, won } = await beginStopping(deps, task, cause, by, { guard, attempts: 1 });
  if (won) return await attempt(deps, stopping, by);
  return stopping.state.status === "stopping" ? await terminate(deps, stopping, by) : stopping;
}

/** The write that ends the turn for everyone else. `attempts` is 1 if the caller makes the first attempt itself. */
export async function beginStopping(
  deps: Deps,
  task: Task,
  cause: EndCause,
  by: Actor,
  { guard = when.mayStop(task.turn), attempts = 0 }: { guard?: TaskGuard; attempts?: number } = {},
): Promise<{ task: Task; won: boolean }> {
  const change = stoppingChange(deps, task.turn, cause, {
    by,
    attempts,
    task,
    ...commandOf(task),
  });
  const outcome = await deps.store.changeTask(task.id, guard, change);
  if (outcome.won) countStopBegun(deps, outcome.item, cause);
  return { task: outcome.item ?? task, won: outcome.won };
}

/**
 * One more attempt at a `stopping` turn. It is recorded before it is made, so a caller that dies during the attempt
 * leaves it counted.
 */
export async function terminate(deps: SandboxDeps, task: Task, by: Actor): Promise<Task> {
  const { turn, state } = task;
  if (state.status !== "stopping") return task;
  const attempts = state.attempts + 1;
  const recorded = await deps.store.changeTask(task.id, when.nextAttempt(turn, "stopping", state.attempts), {
    set: { state: { ...state, attempts }, dueAt: deps.clock.now() + terminateBackoffMs(attempts) },
  });
  // Another process makes this attempt. However many messages arrive, each attempt is made once.
  if (!recorded.won) return recorded.item ?? task;
  return await attempt(deps, recorded.item, by);
}

/** Kills what the turn started and writes the outcome once that is proven. The attempt is already recorded. */
async function attempt(deps: SandboxDeps, task: Task, by: Actor): Promise<Task> {
  const { store, clock, timers, metrics } = deps;
  const { turn, state } = task;
  if (state.status !== "stopping") return task;

  // This attempt may outlive its function, so arm the next attempt's timer at the same time. Without a timer the reaper
  // retries.
  const timer = { kind: "terminate", taskId: task.id, turn } as const;
  const armed = timers.arm(timer, terminateBackoffMs(state.attempts)).catch(() => {});
  const [proven, isClosed] = await Promise.all([
    proveDeath(deps, task, state.attempts),
    closeNetwork(deps, task),
    armed,
  ]);
  if (!proven) {
    metrics.count("stop_unproven", 1, { cause: state.error.code });
    return task;
  }

  const now = clock.now();
  const { outcome, error } = state;
  const over = await store.changeTask(
    task.id,
    when.stopping(turn),
    ended(turn, { status: outcome, endedAt: now, result: null, error }, now, by, {
      set: { ...tallied(task, { stopAttempts: state.attempts }), ...(!isClosed && { networkOpen: true }) },
    }),
  );
  if (over.won) {
    countStopProven(deps, over.item, error.code);
    await requestFollowUp(deps, over.item);
  }
  return over.item ?? task;
}

/** Ends a turn that has nothing to kill: it never ran, or its sandbox is gone. */
export async function failTurn(
  deps: Deps,
  task: Task,
  guard: TaskGuard,
  error: TaskError,
  by: Actor,
): Promise<void> {
  const now = deps.clock.now();
  const state = { status: "failed", endedAt: now, result: null, error } as const;
  const failed = await deps.store.changeTask(
    task.id,
    guard,
    ended(task.turn, state, now, by, { note: error.code }),
  );
  if (failed.won) await requestFollowUp(deps, failed.item);
}

/** The runner reports that its agent has ended and that all output before was accepted. */
export async function reportEnd(
  deps: EndingDeps,
  { taskId, turn }: { taskId: string; turn: number },
  reportedEnd: RunnerEnd,
): Promise<"done" | "stop" | "wait"> {
  const { store, clock, timers } = deps;
  const task = await store.getTask(taskId);
  const end = task ? maskTexts(turnSecrets(deps.sealer, task), reportedEnd) : reportedEnd;
  if (end.pushed !== undefined) return await settleReported(deps, { taskId, turn }, end);

  const verdict = decideEnd(end, clock.now());
  // Before the write that ends the turn: afterwards the next turn may already have its own policy.
  const isClosed = !isRunning(task, turn) || (await closeNetwork(deps, task));
  const news = { ...(task && reported(task, end, clock.now())), ...(!isClosed && { networkOpen: true }) };
  const change =
    "outcome" in verdict
      ? stoppingChange(deps, turn, verdict, {
          by: "runner",
          news,
          ...(task && { task, ...commandOf(task) }),
        })
      : endedChange(deps, turn, verdict, end, news);
  const outcome = await store.changeTask(taskId, when.saidEverything(turn, end.lastSeq), change);
  if (!outcome.won) {
    if (wasReported(outcome.item, turn)) return "done";
    const action = decideRunnerAction(outcome.item, turn);
    return action === "continue" ? "wait" : action;
  }

  await countSpend(deps, task, outcome.item).catch(() => false);
  // The runner says it killed its agent. That is not proof.
  if ("outcome" in verdict) {
    countStopBegun(deps, outcome.item, verdict);
    await timers.arm({ kind: "terminate", taskId, turn }, 0);
  } else await requestFollowUp(deps, outcome.item);
  return "done";
}

type News = ReturnType<typeof reported> & { networkOpen?: boolean };

function isRunning(task: Task | undefined, turn: number): task is Task {
  return task?.turn === turn && task.state.status === "running";
}

function stoppingChange(
  { clock }: Deps,
  turn: number,
  { outcome, error }: EndCause,
  {
    by,
    attempts = 0,
    commandId,
    news = {},
    task,
  }: { by: Actor; attempts?: number; commandId?: string; news?: News; task?: Task },
) {
  const now = clock.now();
  const launched = commandId === undefined ? {} : { commandId };
  return {
    set: {
      state: { status: "stopping", outcome, error: shortened(error), attempts, ...launched } as const,
      dueAt: now + (attempts > 0 ? terminateBackoffMs(attempts) : terminateRetryMs),
      ...news,
      ...(task?.turn === turn && tallyAtStop(task, error, now)),
    },
    phase: { turn, status: "stopping", at: now, by, note: error.code } as const,
  };
}

/** How late a silent turn is ended, and what was counted so far but not written. */
function tallyAtStop(task: Task, { code }: TaskError, now: number): Partial<Pick<Task, "tally">> {
  if (code === "inactivity_timeout") return tallied(task, { stuckLateMs: Math.max(now - silentAt(task), 0) });
  return task.tally?.turn === task.turn ? { tally: task.tally } : {};
}

function endedChange({ clock, config }: Deps, turn: number, state: TaskState, end: RunnerEnd, news: News) {
  const now = clock.now();
  const { outputCutBytes } = end;
  const change = ended(turn, state, now, "runner", {
    set: { lastActivityAt: now, ...news },
    remove: hasLostTrack(state, end) ? ["conversation"] : [],
  });
  if (outputCutBytes === 0) return change;
  const detail = `${outputCutBytes} bytes of output exceeded the limit of ${config.maxOutputBytes} and were dropped.`;
  return { ...change, notice: { code: "output_cut", detail, turn, at: now } };
}

/** An agent that failed without naming its conversation cannot resume it. The next turn gets a replay. */
function hasLostTrack({ status }: TaskState, { conversationId }: RunnerEnd): boolean {
  return status === "failed" && conversationId === undefined;
}
