import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { OutputBatch } from "../events/schema.ts";
import { countTold } from "../metrics/count.ts";
import { addIncident } from "../usage/usage.ts";
import { causes, decideRunnerAction, isNewSign, type RunnerAction, signOfLife } from "./decide.ts";
import { beginStopping } from "./end.ts";
import { when } from "./guards.ts";
import { type AgentReport, reported } from "./report.ts";
import type { Task } from "./schema.ts";

type Turn = { taskId: string; turn: number };

/**
 * Accepts a batch: first its record, then the write that commits it. A batch without its commit is invisible and is
 * sent again. A batch that was already committed changes nothing.
 */
export async function takeOutput(
  deps: Deps,
  { taskId, turn }: Turn,
  { seq, chunks, ...report }: Pick<OutputBatch, "seq" | "chunks"> & AgentReport,
): Promise<RunnerAction> {
  const { store, clock } = deps;
  const task = await store.getTask(taskId);
  const action = decideRunnerAction(task, turn);
  if (action !== "continue" || !task || task.outputSeq >= seq) return await answer(deps, task, turn);
  if (task.outputSeq < seq - 1) throw outOfOrder(seq, task.outputSeq);

  await store.putRecord(taskId, { kind: "output", turn, seq, chunks }, task.expiresAt);
  const now = clock.now();
  const outcome = await store.changeTask(taskId, when.readyForBatch(turn, seq), {
    set: {
      outputSeq: seq,
      ...signOfLife(task, { lastActivityAt: now }, now),
      ...reported(task, report, now),
    },
  });
  if (!outcome.won) return await answer(deps, outcome.item, turn);
  return await withinBudget(deps, outcome.item);
}

/**
 * A beat asks whether to go on. It is written only if it changes something, and never counts past the cap on silent
 * work.
 */
export async function takeBeat(
  deps: Deps,
  { taskId, turn }: Turn,
  activity: "none" | "model" | "tool",
  report: AgentReport = {},
): Promise<RunnerAction> {
  const { store, clock } = deps;
  const known = await store.getTask(taskId);
  const now = clock.now();
  const isSign = known !== undefined && activity !== "none" && isNewSign(known, now);
  const set = known && {
    ...(isSign && signOfLife(known, { aliveAt: now }, now)),
    ...reported(known, report, now),
  };
  const isNews = set !== undefined && Object.keys(set).length > 0;
  const task = isNews ? (await store.changeTask(taskId, when.running(turn), { set })).item : known;
  const action = decideRunnerAction(task, turn);
  return action === "continue" && task ? await withinBudget(deps, task) : await answer(deps, task, turn);
}

/** One budget covers all turns of a task. Over it the runner kills its agent, and the timer finds the proof. */
async function withinBudget(deps: Deps, task: Task): Promise<RunnerAction> {
  const { maxCostUsd } = task.limits;
  const costUsd = (task.usage?.costUsd ?? 0) + (task.pastUsage?.costUsd ?? 0);
  if (maxCostUsd === undefined || costUsd <= maxCostUsd || task.state.status !== "running") return "continue";
  const { task: stopping } = await beginStopping(deps, task, causes.budget, "runner");
  await deps.timers.arm({ kind: "terminate", taskId: task.id, turn: task.turn }, 0);
  return await answer(deps, stopping, task.turn);
}

/** The cancellation check: the second way a stop reaches an agent. With the flag off, the runner is not told. */
async function answer(deps: Deps, task: Task | undefined, turn: number): Promise<RunnerAction> {
  const action = decideRunnerAction(task, turn);
  if (action !== "stop") return action;
  if (task && !(await deps.flags.isOn("ENABLE_CANCELLATION_CHECKS", task.userId))) return "continue";
  countTold(deps, task, turn);
  if (!task) await addIncident(deps, undefined, ["cancellation_told", 1, "unknown"], String(turn));
  return "stop";
}

function outOfOrder(seq: number, last: number): AppError {
  return new AppError(
    "invalid_request",
    `Batch ${seq} came after batch ${last}. Batches must come in order.`,
  );
}
