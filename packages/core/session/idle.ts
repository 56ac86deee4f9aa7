import type { Deps } from "../deps.ts";
import type { Task } from "../task/schema.ts";
import { endOf } from "./release.ts";

/**
 * Marks the session idle after its turn ended: from here on it may be released, least recently used first. If another
 * turn has taken the session meanwhile, this write loses.
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
