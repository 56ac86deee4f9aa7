import { usageOf } from "../cost/decide.ts";
import type { Deps } from "../deps.ts";
import { countTurnEnd } from "../metrics/count.ts";
import { announce } from "../webhook/index.ts";
import type { Task } from "./schema.ts";

/**
 * What follows a turn's end, by a worker: what it used is counted, who wants to know is told, and
 * a sandbox that is not to be kept is given up.
 * The api has no business with the provider.
 */
export async function afterEnd(deps: Deps, task: Task): Promise<void> {
  const { work } = deps;
  const { userId, sessionKey, sandbox, keepAlive } = task;
  countTurnEnd(deps, task);
  const usage = usageOf(task);
  await Promise.all([
    usage && work.send({ kind: "usage", ...usage }),
    announce(deps, task),
    sandbox && !keepAlive && work.send({ kind: "release", userId, sessionKey, epoch: sandbox.epoch }),
  ]);
}
