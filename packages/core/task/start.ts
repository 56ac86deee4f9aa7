import type { SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { checkHost } from "../hosts.ts";
import { taskRetentionMs } from "../limits.ts";
import type { GitCredential } from "../ports.ts";
import { takeLease } from "../session/lease.ts";
import { queuedDueAt } from "./decide.ts";
import { plannedBefore } from "./idempotency.ts";
import { inlinePrompt, storePrompt } from "./prompt.ts";
import { limitsFrom, type StartRequest } from "./request.ts";
import type { Limits, Repo, Task } from "./schema.ts";
import { sealSecrets } from "./secrets.ts";

/**
 * Starts a task. Order: lease, prompt, task, work message. A crash after the lease leaves a lease on a missing task,
 * which is free after a grace period. A crash after the task is found through its `dueAt`.
 */
export async function start(
  deps: SealingDeps,
  userId: string,
  request: StartRequest,
  idempotencyKey?: string,
): Promise<Task> {
  if (request.repo) checkHost(request.repo.url, "repo.url", deps.config.allowPrivateHosts);
  if (request.webhook) checkHost(request.webhook.url, "webhook.url", deps.config.allowPrivateHosts);
  const limits = limitsFrom(request.limits, deps.config);
  const planned = deps.ids.task();
  const taskId = idempotencyKey
    ? await plannedBefore(deps, `${userId}#start#${idempotencyKey}`, request, planned)
    : planned;
  const sessionKey = request.sessionKey ?? "default";

  const existing = taskId === planned ? undefined : await deps.store.getTask(taskId);
  if (existing) {
    // The first try may have died before it sent the message. Sending it twice is harmless.
    if (existing.state.status === "queued")
      await deps.work.send({ kind: "provision", taskId, turn: existing.turn });
    return existing;
  }

  const task = newTask(deps, userId, taskId, sessionKey, request, limits);
  await takeLease(deps, { userId, sessionKey }, { taskId, turn: 1, until: task.deadlineAt });
  await storePrompt(deps.store, task, request.prompt);
  const outcome = await deps.store.createTask(task);
  if (!outcome.item) throw new AppError("internal", "The task could not be stored.");
  if (outcome.won) deps.metrics.count("turn_queued", 1, { verb: "start" });
  await deps.work.send({ kind: "provision", taskId, turn: 1 });
  return outcome.item;
}

function newTask(
  deps: SealingDeps,
  userId: string,
  id: string,
  sessionKey: string,
  request: StartRequest,
  limits: Limits,
): Task {
  const { config, clock, sealer } = deps;
  const now = clock.now();
  return {
    id,
    userId,
    sessionKey,
    agent: request.agent ?? config.defaultAgent,
    ...inlinePrompt(request.prompt),
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
    expiresAt: now + taskRetentionMs,
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
