import type { SandboxDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { freeLease } from "../session/lease.ts";
import { followUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { getTask, noSuchTask } from "./read.ts";
import { isTerminal, type Task } from "./schema.ts";

/**
 * Deletes an ended task with its output, prompts, events and idempotency record. Order: the write that ends the task's
 * life, then everything else. From that write on the task does not exist for anyone: a concurrent continue loses. A
 * crash afterwards is finished by the reaper, because the task stays due.
 */
export async function deleteTask(deps: SandboxDeps, userId: string, id: string): Promise<void> {
  await removeTask(deps, await getTask(deps, userId, id));
}

export async function removeTask(deps: SandboxDeps, task: Task): Promise<void> {
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
  await freeLease(deps, { userId, sessionKey }, id);
  await store.purgeTask(id);
}

function active({ turn, state }: Task): AppError {
  return new AppError("task_active", `Turn ${turn} is ${state.status}. Stop it or wait for its end.`);
}
