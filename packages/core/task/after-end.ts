import type { Deps } from "../deps.ts";
import type { Task } from "./schema.ts";

/**
 * What follows a turn's end, by a worker: what it used is counted, and a sandbox that is not to be kept is given up.
 * The api has no business with the provider.
 */
export async function afterEnd({ work }: Deps, task: Task): Promise<void> {
  const { id, turn, userId, sessionKey, sandbox, keepAlive } = task;
  if (!sandbox) return;
  await Promise.all([
    work.send({ kind: "usage", taskId: id, turn }),
    keepAlive ? undefined : work.send({ kind: "release", userId, sessionKey, epoch: sandbox.epoch }),
  ]);
}
