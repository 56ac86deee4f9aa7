import { type EndingDeps, getTask, isTerminal, type Task } from "@concierge/core";
import { stop } from "@concierge/core/task/stop";
import type { Context } from "hono";
import { record } from "./audited.ts";
import type { Env } from "./env.ts";

/**
 * Stops a task and records who asked for it. Unlike other actions, a stop does not wait for its audit entry: every
 * moment costs. The answer does, so a stop that could not be recorded is reported as failed and can be repeated.
 */
export async function stopRecorded(deps: EndingDeps, c: Context<Env>, taskId: string): Promise<Task> {
  const { userId } = c.get("caller");
  const { state, turn } = await getTask(deps, userId, taskId);
  const isOver = isTerminal(state.status);
  const recorded = isOver ? undefined : record(deps, c, "task.stop", taskId, { turn: String(turn) });
  const [task] = await Promise.all([stop(deps, userId, taskId), recorded]);
  return task;
}
