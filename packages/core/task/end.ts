import type { Deps } from "../deps.ts";
import { decideEnd, decideRunnerAction, type RunnerEnd } from "./decide.ts";
import { when } from "./guards.ts";
import type { Task, TaskError } from "./schema.ts";

/** The turn could not be begun. There is nothing to kill: what is half made belongs to the session. */
export async function failTurn({ store, clock }: Deps, task: Task, error: TaskError): Promise<void> {
  const now = clock.now();
  await store.changeTask(task.id, when.notYetRunning(task.turn), {
    set: { state: { status: "failed", endedAt: now, result: null, error } },
    remove: ["sealedEnv", "dueAt"],
    phase: { turn: task.turn, status: "failed", at: now, by: "worker", note: error.code },
  });
}

/** The runner says its agent has ended, and that every batch before was taken. */
export async function reportEnd(
  deps: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  end: RunnerEnd,
): Promise<"done" | "stop" | "wait"> {
  const { store, clock } = deps;
  const now = clock.now();
  const state = decideEnd(end, now);
  const outcome = await store.changeTask(taskId, when.saidEverything(turn, end.lastSeq), {
    set: { state, lastActivityAt: now },
    remove: ["sealedEnv", "dueAt"],
    phase: { turn, status: state.status, at: now, by: "runner" },
    ...(end.outputCutBytes > 0 && {
      notice: {
        code: "output_cut",
        detail: `${end.outputCutBytes} bytes of output were beyond the cap of ${deps.config.maxOutputBytes} and are not kept.`,
        turn,
        at: now,
      },
    }),
  });
  if (!outcome.won) {
    const action = decideRunnerAction(outcome.item, turn);
    return action === "continue" ? "wait" : action;
  }

  await tidy(deps, outcome.item);
  return "done";
}

/** A sandbox that is not to be kept is given up at once, by a worker: the api has no business with the provider. */
async function tidy({ work }: Deps, task: Task): Promise<void> {
  if (task.keepAlive || !task.sandbox) return;
  await work.send({
    kind: "release",
    userId: task.userId,
    sessionKey: task.sessionKey,
    epoch: task.sandbox.epoch,
  });
}
