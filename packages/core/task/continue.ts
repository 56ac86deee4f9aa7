import type { SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { noticesKept, phasesKept, taskRetentionMs, turnsMax } from "../limits.ts";
import type { TaskChange } from "../ports.ts";
import { takeLease } from "../session/lease.ts";
import { queuedDueAt } from "./decide.ts";
import { followUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { hashOf } from "./idempotency.ts";
import { inlinePrompt, storePrompt, turnKeyOf, turnMadeBy } from "./prompt.ts";
import { getTask } from "./read.ts";
import { type ContinueRequest, limitsFrom } from "./request.ts";
import { isTerminal, type Task } from "./schema.ts";
import { sealSecrets } from "./secrets.ts";
import { addUsed } from "./view.ts";

/**
 * Continues a task whose turn has ended: the lease, then the prompt, then the next turn, then the work message. The turn
 * says which request made it. So a retry answers with the turn it made, also where only the answer of the write was
 * lost, and never with a turn that another request made.
 */
export async function continueTask(
  deps: SealingDeps,
  userId: string,
  id: string,
  request: ContinueRequest,
  idempotencyKey?: string,
): Promise<Task> {
  const task = await getTask(deps, userId, id);
  const turnKey = turnKeyOf(deps.ids, idempotencyKey, hashOf(request));
  const made = turnMadeBy(task, turnKey);
  if (made !== undefined) return await answerRetry(deps, task, made);

  const turn = task.turn + 1;
  const next = nextTurn(deps, task, request, turnKey);
  if (!isTerminal(task.state.status)) throw active(task);
  if (turn > turnsMax) throw new AppError("turn_limit", `A task may have ${turnsMax} turns; start another.`);

  const { sessionKey } = task;
  await takeLease(deps, { userId, sessionKey }, { taskId: id, turn, until: next.deadlineAt }, task);
  // The next turn takes the place of the one that ended: what follows its end is done first.
  if (task.dueAt !== undefined) await followUp(deps, task);
  await Promise.all([
    storePrompt(deps.store, { id, ...next.change.set }, request.prompt),
    keepUnlaunchedPrompt(deps.store, task),
  ]);
  const outcome = await deps.store.changeTask(id, when.ended(task.turn), next.change);
  if (!outcome.won) {
    if (outcome.item && turnMadeBy(outcome.item, turnKey) !== undefined)
      return await answerRetry(deps, outcome.item, turn);
    throw active(outcome.item ?? task);
  }
  deps.metrics.count("turn_queued", 1, { verb: "continue" });
  await deps.work.send({ kind: "provision", taskId: id, turn });
  return outcome.item;
}

/** A short prompt becomes an item of its own with the launch: one that was never launched is stored before it goes. */
async function keepUnlaunchedPrompt(store: SealingDeps["store"], task: Task): Promise<void> {
  const { id, turn, turnKey, prompt, startedAt, expiresAt } = task;
  if (prompt !== undefined && startedAt === undefined)
    await store.putPrompt(id, { turn, key: turnKey }, prompt, expiresAt);
}

/** The first try may have died before it asked for a worker; asking twice does no harm. */
async function answerRetry({ work }: SealingDeps, task: Task, made: number): Promise<Task> {
  if (task.turn === made && task.state.status === "queued")
    await work.send({ kind: "provision", taskId: task.id, turn: made });
  return task;
}

function nextTurn(
  { clock, sealer, config }: SealingDeps,
  task: Task,
  request: ContinueRequest,
  turnKey: string,
) {
  const now = clock.now();
  const turn = task.turn + 1;
  const limits = limitsFrom(request.limits, { ...config, ...task.limits });
  const secrets = sealSecrets(sealer, task.id, { env: request.env, git: request.repo });
  const short = inlinePrompt(request.prompt);
  const deadlineAt = now + limits.maxDurationMs;
  const change = {
    set: {
      turn,
      turnKey,
      state: { status: "queued" } as const,
      ...short,
      limits,
      ...secrets,
      deadlineAt,
      lastActivityAt: now,
      outputSeq: 0,
      pastUsage: addUsed(task.usage, task.pastUsage),
      past: [...task.past, pastOf(task)],
      // Nothing is appended to the phases of a task that has ended, so the list that was read is the list there is.
      phases: [...task.phases.slice(1 - phasesKept), { turn, status: "queued", at: now, by: "api" } as const],
      phaseCount: task.phaseCount + 1,
      notices: task.notices.slice(-noticesKept),
      noticesDropped: (task.noticesDropped ?? 0) + Math.max(task.notices.length - noticesKept, 0),
      dueAt: queuedDueAt(now, deadlineAt),
      expiresAt: now + taskRetentionMs,
    },
    remove: [
      ...(secrets.sealed ? [] : (["sealed"] as const)),
      ...("prompt" in short ? [] : (["prompt"] as const)),
      "cloneNonce",
      "sandbox",
      "startedAt",
      "usage",
      "aliveAt",
      "reaped",
    ],
  } satisfies TaskChange;
  return { change, deadlineAt };
}

function pastOf({ turn, outputSeq, turnKey }: Task) {
  return { turn, outputSeq, ...(turnKey !== undefined && { key: turnKey }) };
}

function active(task: Task): AppError {
  return new AppError(
    "task_active",
    `Turn ${task.turn} is ${task.state.status}; stop it or wait for its end.`,
  );
}
