import { cutTo } from "../bounds.ts";
import { usageOf } from "../cost/decide.ts";
import { addUsage } from "../cost/index.ts";
import type { Deps } from "../deps.ts";
import { errorDetailMaxBytes, followUpDueMs } from "../limits.ts";
import { countTurnEnd } from "../metrics/count.ts";
import type { TaskChange } from "../ports.ts";
import { markIdle } from "../session/idle.ts";
import { announce } from "../webhook/index.ts";
import { when } from "./guards.ts";
import { type Actor, isTerminal, type Task, type TaskError, type TaskState } from "./schema.ts";

/**
 * The write that ends a turn. The task stays due until its end was followed up (`followUp`), so that what follows an end
 * is not lost with the message that asks for it.
 */
export function ended(
  turn: number,
  state: TaskState,
  now: number,
  by: Actor,
  { set = {}, remove = [], note }: Pick<TaskChange, "set" | "remove"> & { note?: string } = {},
): TaskChange {
  return {
    set: { state: withShortError(state), dueAt: now + followUpDueMs, ...set },
    remove: ["sealed", "aliveAt", ...remove],
    phase: { turn, status: state.status, at: now, by, ...(note !== undefined && { note }) },
  };
}

function withShortError(state: TaskState): TaskState {
  return "error" in state ? { ...state, error: shortened(state.error) } : state;
}

/** What others say of an error may be long; a task's item has bounds. */
export function shortened({ code, detail }: TaskError): TaskError {
  return { code, detail: cutTo(errorDetailMaxBytes, detail) };
}

/** Asks a worker to follow a turn's end up. Where that fails the reaper does it: the task is due. */
export async function requestFollowUp(deps: Deps, task: Task): Promise<void> {
  countTurnEnd(deps, task);
  const { id: taskId, turn } = task;
  const asked = deps.work.send({ kind: "ended", taskId, turn });
  await Promise.allSettled([markIdle(deps, task), asked]);
}

/**
 * What follows a turn's end: the session is idle, a sandbox that is not to be kept goes, the webhook is queued, the usage
 * is counted. Doing it twice is harmless. A crash between the mark and the sum counts nothing, which is the better error
 * in a sum of money; every other failure leaves the task due, and all of it is done again.
 */
export async function followUp(deps: Deps, task: Task): Promise<void> {
  const { store, clock, work } = deps;
  const { id, turn, userId, sessionKey, sandbox, keepAlive } = task;
  if (!isTerminal(task.state.status) || (task.countedTurn ?? 0) >= turn) return;
  await Promise.all([
    markIdle(deps, task),
    announce(deps, task),
    sandbox && !keepAlive && work.send({ kind: "release", userId, sessionKey, epoch: sandbox.epoch }),
  ]);
  const mark = { set: { countedTurn: turn }, remove: ["dueAt", "reaped"] } as const;
  const marked = await store.changeTask(id, when.notFollowedUp(turn), mark);
  const usage = usageOf(task);
  if (!marked.won || !usage) return;
  try {
    await addUsage(deps, userId, usage);
  } catch (error) {
    await store.changeTask(id, when.ended(turn), { set: { countedTurn: turn - 1, dueAt: clock.now() } });
    throw error;
  }
}
