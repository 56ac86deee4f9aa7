import { cutTo } from "../bounds.ts";
import type { Deps, SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { errorDetailMaxBytes, followUpDueMs } from "../limits.ts";
import { countTurnEnd } from "../metrics/count.ts";
import { samplesOf } from "../metrics/measures.ts";
import type { TaskChange } from "../ports.ts";
import { markIdle } from "../session/idle.ts";
import { hasLease } from "../session/lease.ts";
import { dayOf, usageOf } from "../usage/decide.ts";
import { addMeasures, addUsage, usageSamples } from "../usage/usage.ts";
import { dismissTurn } from "../users/holds.ts";
import { announce } from "../webhook/deliver.ts";
import { when } from "./guards.ts";
import { closeNetwork } from "./network.ts";
import { type Actor, isTerminal, type Task, type TaskError, type TaskState } from "./schema.ts";

/** The write that ends a turn. The task stays due until `followUp` is done, so a lost message loses nothing. */
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

/** Error texts come from outside and may be long; the item must stay small. */
export function shortened({ code, detail }: TaskError): TaskError {
  return { code, detail: cutTo(errorDetailMaxBytes, detail) };
}

/** Asks a worker to do the follow-up. If the message is lost, the reaper does it: the task is due. */
export async function requestFollowUp(deps: Deps, task: Task): Promise<void> {
  countTurnEnd(deps, task);
  const { id: taskId, turn } = task;
  const asked = deps.work.send({ kind: "ended", taskId, turn }, 0, task.userId);
  await Promise.allSettled([markIdle(deps, task), asked]);
}

/**
 * What follows a turn's end: mark the session idle, release a sandbox that is not kept, queue the webhook, count the
 * usage and the success metrics. Safe to repeat. A crash between the mark and the sums loses one count, which is better
 * than charging twice. After any other failure the task stays due and what is missing runs again.
 */
export async function followUp(deps: SandboxDeps, task: Task): Promise<void> {
  const { store, clock, work } = deps;
  const { id, turn, userId, sessionKey, sandbox, keepAlive } = task;
  if (!isTerminal(task.state.status) || (task.countedTurn ?? 0) >= turn) return;
  await Promise.all([
    markIdle(deps, task),
    announce(deps, task),
    sandbox &&
      !keepAlive &&
      work.send({ kind: "release", userId, sessionKey, epoch: sandbox.epoch }, 0, userId),
    // Best effort: at the limit, the next start looks for turns that have ended.
    dismissTurn(deps, userId, { taskId: id, turn }).catch(() => {}),
  ]);
  if (task.networkOpen) await closeLate(deps, task);
  const mark = { set: { countedTurn: turn }, remove: ["dueAt", "reaped", "networkOpen"] } as const;
  const marked = await store.changeTask(id, when.notFollowedUp(turn), mark);
  if (!marked.won) return;
  const usage = usageOf(task) ?? {};
  const isSummed = (marked.item.summedTurn ?? 0) >= turn;
  const again = (set: TaskChange["set"]) =>
    store.changeTask(id, when.ended(turn), { set: { countedTurn: turn - 1, dueAt: clock.now(), ...set } });
  let samples = [...samplesOf(task), ...usageSamples(dayOf(clock.now()), usage)];
  try {
    if (!isSummed) samples = await addUsage(deps, userId, usage, samplesOf(task));
  } catch (error) {
    await again({});
    throw error;
  }
  try {
    await addMeasures(deps, samples, id);
  } catch (error) {
    // The user's sums are done; only the sums over all users are added again.
    await again({ summedTurn: turn });
    throw error;
  }
}

/**
 * The turn's end could not take its credentials away. A next turn of the session may have begun since: its policy must not
 * be replaced, so this is done only while the ended turn still has the lease. Throws if the provider does not answer:
 * the task stays due, and this is tried again.
 */
async function closeLate(deps: SandboxDeps, task: Task): Promise<void> {
  if (!(await hasLease(deps, task)) || (await closeNetwork(deps, task))) return;
  throw new ProviderError("transient", "The sandbox's network policy could not be reset.");
}
