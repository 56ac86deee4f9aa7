import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { followUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { getTask, noSuchTask } from "./read.ts";
import { isTerminal, type Task } from "./schema.ts";

/**
 * Deletes an ended task with its output, prompts, events and idempotency record. Order: the write that ends the task's
 * life, then everything else. From that write on the task does not exist for anyone: a concurrent continue loses. A
 * crash afterwards is finished by the reaper, because the task stays due.
 */
export async function deleteTask(deps: Deps, userId: string, id: string): Promise<void> {
  await removeTask(deps, await getTask(deps, userId, id));
}

export async function removeTask(deps: Deps, task: Task): Promise<void> {
  const { store, clock } = deps;
  const { id, turn, userId, sessionKey } = task;
  if (!isTerminal(task.state.status)) throw active(task);
  // Usage is counted and the webhook queued before the task is gone.
  if (task.dueAt !== undefined) await followUp(deps, task);
  const now = clock.now();
  const ended = await store.changeTask(id, when.ended(turn), { set: { expiresAt: now, dueAt: now } });
  if (!ended.won) {
    if (!ended.item) throw noSuchTask();
    throw active(ended.item);
  }
  await freeSession(deps, { userId, sessionKey }, id);
  await store.purgeTask(id);
}

/**
 * A lease on a missing task counts for a grace period, because its starter may be about to write the task. This one will
 * never be written, so its time is set back; otherwise the session would look busy.
 */
async function freeSession(
  { store }: Pick<Deps, "store">,
  { userId, sessionKey }: { userId: string; sessionKey: string },
  taskId: string,
): Promise<void> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  if (lease?.taskId === taskId)
    await store.changeSession(userId, sessionKey, { lease }, { set: { lease: { ...lease, at: 0 } } });
}

function active({ turn, state }: Task): AppError {
  return new AppError("task_active", `Turn ${turn} is ${state.status}. Stop it or wait for its end.`);
}
