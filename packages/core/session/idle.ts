import type { Deps } from "../deps.ts";
import type { Task } from "../task/schema.ts";
import { endOf } from "./release.ts";

/**
 * A turn has ended, and its session is idle: from here on it is among those that may be given up, the least recently used
 * first. A turn that has taken the session since makes this write lose.
 */
export async function markIdle({ store, config }: Deps, task: Task): Promise<void> {
  const { id: taskId, turn, userId, sessionKey } = task;
  const dueAt = endOf(task) + config.sessionIdleMs;
  await store.changeSession(
    userId,
    sessionKey,
    { holder: { taskId, turn } },
    { set: { isIdle: true, dueAt } },
  );
}
