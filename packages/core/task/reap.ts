import type { Deps } from "../deps.ts";

const atMost = 100;

/** Looks after turns that nobody works on: their message was lost, or their worker died with it. */
export async function reapTasks({ store, clock, work }: Deps): Promise<{ requeued: number }> {
  let requeued = 0;
  for (const id of await store.listDueTasks(clock.now(), atMost)) {
    const task = await store.getTask(id);
    if (task?.dueAt === undefined || task.dueAt > clock.now()) continue;
    if (task.state.status !== "queued" && task.state.status !== "provisioning") continue;
    await work.send({ kind: "provision", taskId: id, turn: task.turn });
    requeued += 1;
  }
  return { requeued };
}
