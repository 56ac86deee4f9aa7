import { buildBaseSnapshot } from "./base-snapshot/build.ts";
import { makeWarm } from "./capacity/warm.ts";
import type { LaunchDeps } from "./deps.ts";
import { CapacityError, ProviderError } from "./errors.ts";
import { app } from "./limits.ts";
import type { WorkMessage } from "./ports.ts";
import { refreshEnvironment } from "./session/environment.ts";
import { countPrepared, prepareSandbox } from "./session/prepare.ts";
import { release } from "./session/release.ts";
import { retryDelayMs } from "./task/decide.ts";
import { followUp } from "./task/follow-up.ts";
import { provision } from "./task/provision.ts";
import { forgetUser } from "./users/delete.ts";

type Message<Kind extends WorkMessage["kind"]> = Extract<WorkMessage, { kind: Kind }>;

/** Does what a work message asks for. Any message may come twice, late, or when it is no longer wanted. */
export async function handleWork(deps: LaunchDeps, message: WorkMessage): Promise<void> {
  switch (message.kind) {
    case "provision":
      return await provision(deps, message);
    case "prepare":
      return await prepare(deps, message);
    case "environment":
      return await inspectEnvironment(deps, message);
    case "ended":
      return await followUpTurn(deps, message);
    case "warm":
      return await makeWarm(deps);
    case "release":
      await release(deps, message);
      return;
    case "forget":
      return await forgetUser(deps, message.userId);
    case "base":
      return await buildBaseSnapshot(deps, message);
    case "webhook":
      // The previous version sent these to the work queue. The queue adapter forwards them.
      return await deps.work.send(message);
  }
}

/** If the task was continued since, the follow-up is done already. */
async function followUpTurn(deps: LaunchDeps, { taskId, turn }: Message<"ended">): Promise<void> {
  const task = await deps.store.getTask(taskId);
  if (task?.turn === turn) await followUp(deps, task);
}

const prepareTries = 10;

/** Makes a session ready ahead of its first turn. Nobody waits for it. */
async function prepare(
  deps: LaunchDeps,
  { userId, sessionKey, attempt = 0 }: Message<"prepare">,
): Promise<void> {
  const session = await deps.store.getSession(userId, sessionKey);
  if (!session || session.deletedAt !== undefined) return;
  try {
    const found = await prepareSandbox(deps, { userId, sessionKey });
    await countPrepared(deps, userId, found);
  } catch (error) {
    const isPassing =
      error instanceof CapacityError || (error instanceof ProviderError && error.kind !== "refused");
    if (!isPassing || attempt >= prepareTries) throw error;
    const askedMs = error instanceof ProviderError ? error.retryAfterMs : undefined;
    const delayMs = retryDelayMs(attempt, `${app} ${userId} ${sessionKey}`, askedMs);
    await deps.work.send({ kind: "prepare", userId, sessionKey, attempt: attempt + 1 }, delayMs, userId);
  }
}

/** A failure is ignored: the next turn asks again. */
async function inspectEnvironment(deps: LaunchDeps, message: Message<"environment">): Promise<void> {
  const { userId, sessionKey, epoch } = message;
  const session = await deps.store.getSession(userId, sessionKey);
  if (session?.epoch !== epoch) return;
  try {
    await refreshEnvironment(deps, { userId, sessionKey });
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
  }
}
