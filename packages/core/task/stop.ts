import type { SandboxDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { causes } from "./decide.ts";
import { beginStopping, endTurn } from "./end.ts";
import { getTask } from "./read.ts";
import { isTerminal, type Task } from "./schema.ts";

/** Stops a task from any process and in any state. Returns it ended and proven, or still `stopping`. */
export async function stop(deps: SandboxDeps, userId: string, id: string): Promise<Task> {
  const { metrics, flags, timers, clock } = deps;
  const askedAt = clock.now();
  const task = await getTask(deps, userId, id);
  if (isTerminal(task.state.status)) return task;

  metrics.count("stop_requested");
  metrics.count("stop_lookup_ms", clock.now() - askedAt);
  if (!(await flags.isOn("ENABLE_DB_BACKED_STOP", userId))) {
    // Only the runner is told, when it next asks. The timer finds the proof afterwards.
    const { task: stopping } = await beginStopping(deps, task, causes.stopped, "api");
    await timers.arm({ kind: "terminate", taskId: id, turn: task.turn }, runnerHearsInMs);
    return refuseFinalizing(stopping);
  }
  return refuseFinalizing(await endTurn(deps, task, causes.stopped, "api"));
}

/** A runner asks at least this often. */
const runnerHearsInMs = 10_000;

function refuseFinalizing(task: Task): Task {
  if (task.state.status !== "finalizing") return task;
  throw new AppError("finalizing", "The work is being pushed. The task ends by itself in a moment.");
}
