import type { SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { checkHost } from "../hosts.ts";
import type { GitCredential } from "../ports.ts";
import { takeLease } from "../session/lease.ts";
import { withAdmission } from "../users/holds.ts";
import { limitsOf, underCeilings } from "../users/limits.ts";
import { requireSpendLeft } from "../users/spend.ts";
import { queuedDueAt } from "./decide.ts";
import { plannedBefore } from "./idempotency.ts";
import { inlinePrompt, storePrompt } from "./prompt.ts";
import { limitsFrom, type StartRequest } from "./request.ts";
import type { Limits, Repo, Task } from "./schema.ts";
import { sealSecrets } from "./secrets.ts";

/**
 * Starts a task. Order: hold on the user's limit, lease, prompt, task, work message. A crash after the lease leaves a
 * hold and a lease on a missing task, which are free after a grace period. A crash after the task is found through its
 * `dueAt`.
 */
export async function start(
  deps: SealingDeps,
  userId: string,
  request: StartRequest,
  idempotencyKey?: string,
): Promise<Task> {
  if (request.repo) checkHost(request.repo.url, "repo.url", deps.config.allowPrivateHosts);
  if (request.webhook) checkHost(request.webhook.url, "webhook.url", deps.config.allowPrivateHosts);
  const ceilings = await limitsOf(deps, userId);
  const limits = limitsFrom(request.limits, underCeilings(request.limits, deps.config, ceilings));
  const planned = deps.ids.task();
  const taskId = idempotencyKey
    ? await plannedBefore(deps, `${userId}#start#${idempotencyKey}`, request, planned)
    : planned;
  const sessionKey = request.sessionKey ?? "default";

  const existing = taskId === planned ? undefined : await deps.store.getTask(taskId);
  if (existing) {
    // The first try may have died before it sent the message. Sending it twice is harmless.
    if (existing.state.status === "queued")
      await deps.work.send({ kind: "provision", taskId, turn: existing.turn }, 0, userId);
    return existing;
  }

  await requireSpendLeft(deps, userId, ceilings);
  const task = newTask(deps, userId, taskId, sessionKey, request, limits, idempotencyKey);
  const stored = await withAdmission(deps, task, ceilings, async () => {
    await takeLease(deps, { userId, sessionKey }, { taskId, turn: 1, until: task.deadlineAt });
    await storePrompt(deps.store, task, request.prompt);
    const outcome = await deps.store.createTask(task);
    if (!outcome.item)
      throw new AppError("idempotency_conflict", "The task of this idempotency key is being deleted.");
    if (outcome.won) deps.metrics.count("turn_queued", 1, { verb: "start" });
    return outcome.item;
  });
  await deps.work.send({ kind: "provision", taskId, turn: 1 }, 0, userId);
  return stored;
}

function newTask(
  deps: SealingDeps,
  userId: string,
  id: string,
  sessionKey: string,
  request: StartRequest,
  limits: Limits,
  startKey: string | undefined,
): Task {
  const { config, clock, sealer } = deps;
  const now = clock.now();
  return {
    id,
    userId,
    sessionKey,
    agent: request.agent ?? config.defaultAgent,
    ...inlinePrompt(request.prompt),
    ...(startKey !== undefined && { startKey }),
    keepAlive: request.keepAlive ?? true,
    limits,
    metadata: request.metadata ?? {},
    ...repoOf(id, request),
    ...(request.webhook && { webhook: request.webhook }),
    ...(request.network && { network: request.network }),
    ...(request.leftovers && { leftovers: request.leftovers }),
    ...sealSecrets(sealer, id, { env: request.env, git: credentialOf(request) }),
    turn: 1,
    state: { status: "queued" },
    createdAt: now,
    deadlineAt: now + limits.maxDurationMs,
    lastActivityAt: now,
    outputSeq: 0,
    past: [],
    phases: [{ turn: 1, status: "queued", at: now, by: "api" }],
    phaseCount: 1,
    notices: [],
    dueAt: queuedDueAt(now, now + limits.maxDurationMs),
    expiresAt: now + config.taskRetentionMs,
  };
}

function repoOf(taskId: string, { repo }: StartRequest): { repo?: Repo } {
  if (!repo) return {};
  const { url, baseBranch, branch = `concierge/${taskId}`, push = true } = repo;
  return { repo: { url, branch, push, ...(baseBranch !== undefined && { baseBranch }) } };
}

function credentialOf({ repo }: StartRequest): GitCredential | undefined {
  return repo?.token === undefined
    ? undefined
    : { username: repo.username ?? "x-access-token", token: repo.token };
}
