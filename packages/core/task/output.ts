import type { Deps, SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { OutputBatch } from "../events/schema.ts";
import { countTold } from "../metrics/count.ts";
import { addIncident } from "../usage/usage.ts";
import { countSpend } from "../users/spend.ts";
import { fitChunks, maskChunks, turnSecrets } from "./accept-output.ts";
import { causes, decideRunnerAction, isNewSign, type RunnerAction, signOfLife } from "./decide.ts";
import { beginStopping } from "./end.ts";
import { when } from "./guards.ts";
import { type AgentReport, leftoversNotice, reported } from "./report.ts";
import type { Task } from "./schema.ts";

type Turn = { taskId: string; turn: number };

/**
 * Agent events repeat the output in another form. The runner stops at the limit itself; a post by anybody else with
 * its token gets no further than this.
 */
const outputFactor = 2;

/**
 * Accepts a batch: first its record, then the write that commits it. A batch without its commit is invisible and is
 * sent again. A batch that was already committed changes nothing. What is beyond the output limit is dropped.
 */
export async function takeOutput(
  deps: SealingDeps,
  { taskId, turn }: Turn,
  { seq, chunks, ...report }: Pick<OutputBatch, "seq" | "chunks"> & AgentReport,
): Promise<RunnerAction> {
  const { store, clock } = deps;
  const task = await store.getTask(taskId);
  const action = decideRunnerAction(task, turn);
  if (action !== "continue" || !task || task.outputSeq >= seq) return await answer(deps, task, turn);
  if (task.outputSeq < seq - 1) throw outOfOrder(seq, task.outputSeq);

  const storedBytes = task.outputBytes ?? 0;
  const fitting = fitChunks(chunks, outputFactor * deps.config.maxOutputBytes - storedBytes);
  const masked = maskChunks(turnSecrets(deps.sealer, task), fitting.chunks);
  await store.putRecord(taskId, { kind: "output", turn, seq, chunks: masked }, task.expiresAt);
  const now = clock.now();
  const outcome = await store.changeTask(taskId, when.readyForBatch(turn, seq), {
    set: {
      outputSeq: seq,
      outputBytes: storedBytes + fitting.bytes,
      ...signOfLife(task, { lastActivityAt: now }, now),
      ...reported(task, report, now),
    },
    ...leftoversNotice(task, report, now),
  });
  if (!outcome.won) return await answer(deps, outcome.item, turn);
  return await withinBudget(deps, outcome.item, task);
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
  const notice = known ? leftoversNotice(known, report, now) : {};
  const isNews = set !== undefined && Object.keys({ ...set, ...notice }).length > 0;
  const change = { ...(set && { set }), ...notice };
  const task = isNews ? (await store.changeTask(taskId, when.running(turn), change)).item : known;
  const action = decideRunnerAction(task, turn);
  return action === "continue" && task
    ? await withinBudget(deps, task, known)
    : await answer(deps, task, turn);
}

/**
 * One budget covers all turns of a task, another all tasks of a user's day. Over either the runner kills its agent, and
 * the timer finds the proof.
 */
async function withinBudget(deps: Deps, task: Task, before: Task | undefined): Promise<RunnerAction> {
  const { maxCostUsd } = task.limits;
  const costUsd = (task.usage?.costUsd ?? 0) + (task.pastUsage?.costUsd ?? 0);
  const isDayOver = await countSpend(deps, before, task);
  const isOver = maxCostUsd !== undefined && costUsd > maxCostUsd;
  if (!(isOver || isDayOver) || task.state.status !== "running") return "continue";
  const cause = isOver ? causes.budget : causes.dayBudget;
  const { task: stopping } = await beginStopping(deps, task, cause, "runner");
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
