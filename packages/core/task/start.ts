import { createHash } from "node:crypto";
import type { Deps, SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { claimMs, idempotencyMs, taskRetentionMs } from "../limits.ts";
import { takeLease } from "../session/index.ts";
import type { StartRequest } from "./request.ts";
import type { Task } from "./schema.ts";

/**
 * Starts a task: the session's lease, then the task, then the work message. A crash after the lease leaves one on a
 * task that does not exist, free after a grace; a crash after the task is found through its `dueAt`.
 */
export async function start(
  deps: SealingDeps,
  userId: string,
  request: StartRequest,
  idempotencyKey?: string,
): Promise<Task> {
  const planned = { taskId: deps.ids.task(), turn: 1 };
  const { taskId } = idempotencyKey
    ? await plannedBefore(deps, `${userId}#start#${idempotencyKey}`, request, planned)
    : planned;
  const sessionKey = request.sessionKey ?? "default";

  const existing = taskId === planned.taskId ? undefined : await deps.store.getTask(taskId);
  if (existing) {
    // The first try may have died before it asked for a worker; asking twice does no harm.
    if (existing.state.status === "queued")
      await deps.work.send({ kind: "provision", taskId, turn: existing.turn });
    return existing;
  }

  await takeLease(deps, { userId, sessionKey }, { taskId, turn: 1 });
  const outcome = await deps.store.createTask(newTask(deps, userId, taskId, sessionKey, request));
  if (!outcome.item) throw new AppError("internal", "The task could not be written.");
  await deps.work.send({ kind: "provision", taskId, turn: 1 });
  return outcome.item;
}

function newTask(
  deps: SealingDeps,
  userId: string,
  id: string,
  sessionKey: string,
  request: StartRequest,
): Task {
  const { config, clock, sealer } = deps;
  const now = clock.now();
  const limits = {
    maxDurationMs: request.limits?.maxDurationMs ?? config.maxDurationMs,
    inactivityMs: request.limits?.inactivityMs ?? config.inactivityMs,
    ...(request.limits?.maxCostUsd !== undefined && { maxCostUsd: request.limits.maxCostUsd }),
  };
  return {
    id,
    userId,
    sessionKey,
    agent: request.agent ?? config.defaultAgent,
    prompt: request.prompt,
    keepAlive: request.keepAlive ?? true,
    limits,
    metadata: request.metadata ?? {},
    ...(request.env && { sealedEnv: sealer.seal(JSON.stringify(request.env), id) }),
    turn: 1,
    state: { status: "queued" },
    createdAt: now,
    deadlineAt: now + limits.maxDurationMs,
    lastActivityAt: now,
    outputSeq: 0,
    phases: [{ turn: 1, status: "queued", at: now, by: "api" }],
    phaseCount: 1,
    notices: [],
    dueAt: now + claimMs,
    expiresAt: now + taskRetentionMs,
  };
}

/** The task this key already stands for, or the one now planned: written first, so a retry goes on where we stopped. */
async function plannedBefore(
  { store, clock }: Deps,
  scope: string,
  request: unknown,
  planned: { taskId: string; turn: number },
): Promise<{ taskId: string; turn: number }> {
  const requestHash = createHash("sha256").update(canonical(request)).digest("base64");
  const expiresAt = clock.now() + idempotencyMs;
  const { item } = await store.claimIdempotencyKey(scope, { ...planned, requestHash, expiresAt });
  if (!item) throw new AppError("internal", "The idempotency key could not be read.");
  if (item.requestHash === requestHash) return item;
  throw new AppError("idempotency_conflict", "The idempotency key was used before, with another body.");
}

/** JSON with its names in order, so that the same request written otherwise is the same request. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
