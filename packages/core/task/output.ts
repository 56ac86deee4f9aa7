import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { OutputBatch } from "../event/schema.ts";
import { decideRunnerAction, type RunnerAction } from "./decide.ts";
import { when } from "./guards.ts";

/**
 * Takes a batch: first the bytes, then the one conditional write that makes them count. A batch whose second write
 * did not happen is invisible, and comes again; one that comes again after it counted changes nothing.
 */
export async function takeOutput(
  { store, clock }: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  { seq, chunks }: Pick<OutputBatch, "seq" | "chunks">,
): Promise<RunnerAction> {
  const task = await store.getTask(taskId);
  const action = decideRunnerAction(task, turn);
  if (action !== "continue" || !task || task.outputSeq >= seq) return action;
  if (task.outputSeq < seq - 1) throw outOfOrder(seq, task.outputSeq);

  await store.putRecord(taskId, { kind: "output", turn, seq, chunks }, task.expiresAt);
  const outcome = await store.changeTask(taskId, when.readyForBatch(turn, seq), {
    set: { outputSeq: seq, lastActivityAt: clock.now() },
  });
  return outcome.won ? "continue" : decideRunnerAction(outcome.item, turn);
}

/** A beat asks whether to go on; an agent that waits for its model or a tool is not silent. */
export async function takeBeat(
  { store, clock }: Deps,
  { taskId, turn }: { taskId: string; turn: number },
  activity: "none" | "model" | "tool",
): Promise<RunnerAction> {
  if (activity === "none") return decideRunnerAction(await store.getTask(taskId), turn);
  const outcome = await store.changeTask(taskId, when.running(turn), {
    set: { lastActivityAt: clock.now() },
  });
  return decideRunnerAction(outcome.item, turn);
}

function outOfOrder(seq: number, last: number): AppError {
  return new AppError("invalid_request", `Batch ${seq} came after batch ${last}: batches come in order.`);
}
