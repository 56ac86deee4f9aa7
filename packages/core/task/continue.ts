import type { EndingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { noticesKept, phasesKept, turnsMax } from "../limits.ts";
import type { TaskChange } from "../ports.ts";
import { freeLease, takeLease } from "../session/lease.ts";
import { withAdmission } from "../users/holds.ts";
import { limitsOf, underCeilings } from "../users/limits.ts";
import type { UserLimits } from "../users/schema.ts";
import { requireSpendLeft } from "../users/spend.ts";
import { queuedDueAt } from "./decide.ts";
import { followUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { hashOf } from "./idempotency.ts";
import { inlinePrompt, storePrompt, turnKeyOf, turnMadeBy } from "./prompt.ts";
import { getTask, noSuchTask } from "./read.ts";
import { type ContinueRequest, limitsFrom } from "./request.ts";
import { isTerminal, type Task } from "./schema.ts";
import { sealSecrets } from "./secrets.ts";
import { addUsed } from "./view.ts";

/**
 * Continues a task whose turn has ended. Order: hold on the user's limit, lease, prompt, next turn, work message. `turnKey` names the request
 * that made a turn. So a retry answers with the turn it made, even if only the response of the write was lost, and
 * never with another request's turn.
 */
export async function continueTask(
  deps: EndingDeps,
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
  const ceilings = await limitsOf(deps, userId);
  const next = nextTurn(deps, task, request, turnKey, ceilings);
  if (!isTerminal(task.state.status)) throw active(task);
  if (turn > turnsMax)
    throw new AppError("turn_limit", `A task has at most ${turnsMax} turns. Start a new one.`);

  await requireSpendLeft(deps, userId, ceilings);
  const { sessionKey } = task;
  const continued = await withAdmission(deps, { id, userId, turn }, ceilings, async () => {
    await takeLease(deps, { userId, sessionKey }, { taskId: id, turn, until: next.deadlineAt }, task);
    // The next turn replaces the ended one, so finish what follows its end first.
    if (task.dueAt !== undefined) await followUp(deps, task);
    await Promise.all([
      storePrompt(deps.store, { id, ...next.change.set }, request.prompt),
      keepUnlaunchedPrompt(deps.store, task),
    ]);
    const outcome = await deps.store.changeTask(id, when.ended(task.turn), next.change);
    if (!outcome.item) {
      // It was deleted after we read it, perhaps before we took the session.
      await freeLease(deps, { userId, sessionKey }, id);
      throw noSuchTask();
    }
    if (outcome.won) deps.metrics.count("turn_queued", 1, { verb: "continue" });
    else if (turnMadeBy(outcome.item, turnKey) === undefined) throw active(outcome.item);
    return outcome.item;
  });
  return await answerRetry(deps, continued, turn);
}

/**
 * A short prompt gets its own item at launch. A turn that never launched has none yet, so store it before it is
 * replaced.
 */
async function keepUnlaunchedPrompt(store: EndingDeps["store"], task: Task): Promise<void> {
  const { id, turn, turnKey, prompt, startedAt, expiresAt } = task;
  if (prompt !== undefined && startedAt === undefined)
    await store.putPrompt(id, { turn, key: turnKey }, prompt, expiresAt);
}

/** The first try may have died before it sent the message. Sending it twice is harmless. */
async function answerRetry({ work }: EndingDeps, task: Task, made: number): Promise<Task> {
  if (task.turn === made && task.state.status === "queued")
    await work.send({ kind: "provision", taskId: task.id, turn: made }, 0, task.userId);
  return task;
}

function nextTurn(
  { clock, sealer, config }: EndingDeps,
  task: Task,
  request: ContinueRequest,
  turnKey: string,
  ceilings: UserLimits,
) {
  const now = clock.now();
  const turn = task.turn + 1;
  const defaults = underCeilings(request.limits, { ...config, ...task.limits }, ceilings);
  const limits = limitsFrom(request.limits, defaults);
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
      outputBytes: 0,
      ...(request.leftovers && { leftovers: request.leftovers }),
      pastUsage: addUsed(task.usage, task.pastUsage),
      past: [...task.past, pastOf(task)],
      // An ended task gets no new phases, so the list we read is complete.
      phases: [...task.phases.slice(1 - phasesKept), { turn, status: "queued", at: now, by: "api" } as const],
      phaseCount: task.phaseCount + 1,
      notices: task.notices.slice(-noticesKept),
      noticesDropped: (task.noticesDropped ?? 0) + Math.max(task.notices.length - noticesKept, 0),
      dueAt: queuedDueAt(now, deadlineAt),
      expiresAt: now + config.taskRetentionMs,
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
      "maybeLaunched",
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
    `Turn ${task.turn} is ${task.state.status}. Stop it or wait for its end.`,
  );
}
