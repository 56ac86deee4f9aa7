import type { Deps } from "../deps.ts";
import type { Task } from "./schema.ts";

/** A sandbox that is not to be kept is given up at once, by a worker: the api has no business with the provider. */
export async function giveUpSandbox({ work }: Deps, task: Task): Promise<void> {
  if (task.keepAlive || !task.sandbox) return;
  await work.send({
    kind: "release",
    userId: task.userId,
    sessionKey: task.sessionKey,
    epoch: task.sandbox.epoch,
  });
}
