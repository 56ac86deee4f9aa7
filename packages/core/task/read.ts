import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { isTerminal, type Task } from "./schema.ts";

const pollMs = 100;

export async function getTask({ store }: Deps, userId: string, id: string): Promise<Task> {
  const task = await store.getTask(id);
  if (task?.userId !== userId) throw noSuchTask();
  return task;
}

export function noSuchTask(): AppError {
  return new AppError("not_found", "The task does not exist.");
}

/** Waits until the turn has ended or the time is over. */
export async function waitForTask(deps: Deps, userId: string, id: string, waitMs: number): Promise<Task> {
  const until = deps.clock.now() + waitMs;
  for (;;) {
    const task = await getTask(deps, userId, id);
    const leftMs = until - deps.clock.now();
    if (isTerminal(task.state.status) || leftMs <= 0) return task;
    await deps.clock.sleep(Math.min(pollMs, leftMs));
  }
}

/**
 * A runner whose response was lost reports again. That must not be answered with `stop`, which would kill what it
 * should leave alone.
 */
export function wasReported(task: Task | undefined, turn: number): boolean {
  const last = task?.phases.at(-1);
  return last?.turn === turn && last.by === "runner" && isTerminal(last.status);
}
