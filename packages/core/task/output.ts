import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { OutputBatch } from "../event/schema.ts";
import { decideRunnerAction, type RunnerAction } from "./decide.ts";
import { when } from "./guards.ts";
import type { Task } from "./schema.ts";

/**
 * Takes a batch: first the bytes, then the one conditional write that makes them count. A batch whose second write
 * did not happen is invisible, and comes again; one that comes again after it counted changes nothing.
 */
export async function takeOutput(
  deps: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  { seq, chunks }: Pick<OutputBatch, "seq" | "chunks">,
): Promise<RunnerAction> {
  const { store, clock } = deps;
  const task = await store.getTask(taskId);
  const action = decideRunnerAction(task, turn);
  if (action !== "continue" || !task || task.outputSeq >= seq) return await answer(deps, task, action);
  if (task.outputSeq < seq - 1) throw outOfOrder(seq, task.outputSeq);

  await store.putRecord(taskId, { kind: "output", turn, seq, chunks }, task.expiresAt);
  const outcome = await store.changeTask(taskId, when.readyForBatch(turn, seq), {
    set: { outputSeq: seq, lastActivityAt: clock.now() },
  });
  return outcome.won ? "continue" : await answer(deps, outcome.item, decideRunnerAction(outcome.item, turn));
}

/** A beat asks whether to go on; an agent that waits for its model or a tool is not silent. */
export async function takeBeat(
  deps: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  activity: "none" | "model" | "tool",
): Promise<RunnerAction> {
  const { store, clock } = deps;
  const task =
    activity === "none"
      ? await store.getTask(taskId)
      : (await store.changeTask(taskId, when.running(turn), { set: { lastActivityAt: clock.now() } })).item;
  return await answer(deps, task, decideRunnerAction(task, turn));
}

/** The cancellation check: the second way a stop reaches an agent. Switched off, a runner hears of nothing. */
async function answer(
  { flags, metrics }: Deps,
  task: Task | undefined,
  action: RunnerAction,
): Promise<RunnerAction> {
  if (action !== "stop" || !task) return action;
  if (!(await flags.isOn("ENABLE_CANCELLATION_CHECKS", task.userId))) return "continue";
  metrics.count("cancellation_told");
  return "stop";
}

function outOfOrder(seq: number, last: number): AppError {
  return new AppError("invalid_request", `Batch ${seq} came after batch ${last}: batches come in order.`);
}
