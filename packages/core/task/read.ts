import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { isTerminal, type Task } from "./schema.ts";

const pollMs = 100;

export async function getTask({ store }: Deps, userId: string, id: string): Promise<Task> {
  const task = await store.getTask(id);
  if (task?.userId !== userId) throw new AppError("not_found", "There is no such task.");
  return task;
}

/** Holds the answer until the turn has ended or the time is over. */
export async function waitForTask(deps: Deps, userId: string, id: string, waitMs: number): Promise<Task> {
  const until = deps.clock.now() + waitMs;
  for (;;) {
    const task = await getTask(deps, userId, id);
    const leftMs = until - deps.clock.now();
    if (isTerminal(task.state.status) || leftMs <= 0) return task;
    await deps.clock.sleep(Math.min(pollMs, leftMs));
  }
}

/** A runner whose answer was lost says it again: not to be taken for a stop, which would kill what it is to leave alone. */
export function wasReported(task: Task | undefined, turn: number): boolean {
  const last = task?.phases.at(-1);
  return last?.turn === turn && last.by === "runner" && isTerminal(last.status);
}
