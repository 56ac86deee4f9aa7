import { isTerminal } from "@concierge/core";
import { readOutput } from "@concierge/core/events/read";
import { createActor, type Scheduler } from "./scheduler.ts";
import { keyOf, type Watch } from "./watch.ts";
import type { World } from "./world.ts";

/** How long a task may take to end after its deadline or the last fault. */
export const boundMs = 6 * 60_000;

/** What must hold once nothing fails any more and everyone had time to react. */
export async function checkSettled(scheduler: Scheduler, world: World, watch: Watch): Promise<void> {
  const now = scheduler.now();
  for (const task of watch.tasks.values()) {
    if (!isTerminal(task.state.status)) {
      watch.report(
        4,
        `${keyOf(task)} is still ${task.state.status}, ${now - task.deadlineAt} ms past its deadline`,
      );
    } else if (task.dueAt !== undefined) watch.report(4, `${keyOf(task)} has ended and is still due`);
  }
  for (const session of watch.sessions.values()) {
    if (session.dueAt !== undefined && session.dueAt < now - boundMs) {
      watch.report(
        4,
        `session ${session.userId}#${session.key} has been due since ${now - session.dueAt} ms`,
      );
    }
    if (session.sandbox && session.dueAt === undefined) {
      watch.report(5, `nobody will ever look after ${session.sandbox.name}`);
    }
  }
  for (const { name } of world.sandboxes.sandboxes()) {
    const named = [...watch.sessions.values()].some(({ sandbox }) => sandbox?.name === name);
    const isAhead = watch.warm.has(name) && watch.warm.get(name)?.state !== "claimed";
    if (!named && !isAhead) watch.report(5, `${name} lives and nothing names it`);
  }
  watch.evidence.checkSettled();
  await checkOutput(world, watch);
}

/** All acknowledged output is there, in order and once. */
async function checkOutput(world: World, watch: Watch): Promise<void> {
  const deps = world.depsFor(createActor("the last reader"), "api", 0);
  for (const task of watch.tasks.values()) {
    const texts: string[] = [];
    for await (const data of readOutput({ ...deps, store: world.rawStore }, task)) {
      texts.push(Buffer.from(data).toString("utf8"));
    }
    const acknowledged = world.acknowledged.filter(({ taskId }) => taskId === task.id);
    const there = new Set(texts);
    const lost = acknowledged.find(({ text }) => !there.has(text));
    if (lost) watch.report(8, `${lost.text} was acknowledged and is not there`);
    if (there.size !== texts.length) watch.report(8, `${task.id} has output twice`);
    const order = acknowledged.map(({ text }) => texts.indexOf(text));
    if (order.some((at, i) => i > 0 && at < (order[i - 1] ?? 0)))
      watch.report(8, `${task.id} is out of order`);
  }
}
