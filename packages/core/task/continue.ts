import { usageOf } from "../cost/decide.ts";
import type { SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { phasesKept, taskRetentionMs, turnsMax } from "../limits.ts";
import { takeLease } from "../session/lease.ts";
import { queuedDueAt } from "./decide.ts";
import { when } from "./guards.ts";
import { plannedBefore } from "./idempotency.ts";
import { getTask } from "./read.ts";
import { type ContinueRequest, limitsFrom } from "./request.ts";
import { isTerminal, type Task } from "./schema.ts";
import { sealSecrets } from "./secrets.ts";
import { addUsed } from "./view.ts";

/** Goes on with a task whose turn has ended: the lease, then the next turn, then the work message. */
export async function continueTask(
  deps: SealingDeps,
  userId: string,
  id: string,
  request: ContinueRequest,
  idempotencyKey?: string,
): Promise<Task> {
  const task = await getTask(deps, userId, id);
  const planned = { taskId: id, turn: task.turn + 1 };
  const { turn } = idempotencyKey
    ? await plannedBefore(deps, `${userId}#continue#${id}#${idempotencyKey}`, request, planned)
    : planned;
  if (turn <= task.turn) {
    if (task.turn === turn && task.state.status === "queued") await askForWorker(deps, id, turn);
    return task;
  }
  if (!isTerminal(task.state.status)) throw active(task);
  if (turn > turnsMax) throw new AppError("turn_limit", `A task may have ${turnsMax} turns; start another.`);

  await takeLease(deps, { userId, sessionKey: task.sessionKey }, { taskId: id, turn }, task);
  const outcome = await deps.store.changeTask(id, when.ended(task.turn), nextTurn(deps, task, request));
  if (!outcome.won) throw active(outcome.item ?? task);
  deps.metrics.count("turn_queued", 1, { verb: "continue" });
  // Whoever was to count the turn before finds it gone: what is not counted yet goes along.
  const usage = usageOf(task);
  await Promise.all([askForWorker(deps, id, turn), usage && deps.work.send({ kind: "usage", ...usage })]);
  return outcome.item;
}

function nextTurn({ clock, sealer }: SealingDeps, task: Task, request: ContinueRequest) {
  const now = clock.now();
  const turn = task.turn + 1;
  const limits = limitsFrom(request.limits, task.limits);
  const secrets = sealSecrets(sealer, task.id, { env: request.env, git: request.repo });
  return {
    set: {
      turn,
      state: { status: "queued" } as const,
      prompt: request.prompt,
      limits,
      ...secrets,
      deadlineAt: now + limits.maxDurationMs,
      lastActivityAt: now,
      outputSeq: 0,
      pastUsage: addUsed(task.usage, task.pastUsage),
      past: [...task.past, { turn: task.turn, outputSeq: task.outputSeq }],
      // Nothing is appended to a task that has ended, so the list that was read is the list there is.
      phases: [...task.phases.slice(1 - phasesKept), { turn, status: "queued", at: now, by: "api" } as const],
      phaseCount: task.phaseCount + 1,
      dueAt: queuedDueAt(now, now + limits.maxDurationMs),
      expiresAt: now + taskRetentionMs,
    },
    remove: [
      ...(secrets.sealed ? [] : (["sealed"] as const)),
      "cloneNonce",
      "sandbox",
      "startedAt",
      "usage",
    ] as const,
  };
}

async function askForWorker({ work }: SealingDeps, taskId: string, turn: number): Promise<void> {
  await work.send({ kind: "provision", taskId, turn });
}

function active(task: Task): AppError {
  return new AppError(
    "task_active",
    `Turn ${task.turn} is ${task.state.status}; stop it or wait for its end.`,
  );
}
