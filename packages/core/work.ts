import { buildBase } from "./base/index.ts";
import type { LaunchDeps } from "./deps.ts";
import { NoRoomError, ProviderError } from "./errors.ts";
import { app } from "./limits.ts";
import { makeWarm } from "./pool/index.ts";
import type { WorkMessage } from "./ports.ts";
import { release } from "./session/release.ts";
import { retryDelayMs } from "./task/decide.ts";
import { followUp } from "./task/follow-up.ts";
import { provision } from "./task/provision.ts";

type Message<Kind extends WorkMessage["kind"]> = Extract<WorkMessage, { kind: Kind }>;

/** Does what a work message asks for. Any of them may come twice, late, or when it is no longer wanted. */
export async function carryOut(deps: LaunchDeps, message: WorkMessage): Promise<void> {
  switch (message.kind) {
    case "provision":
      return await provision(deps, message);
    case "prepare":
      return await prepare(deps, message);
    case "environment":
      return await lookAround(deps, message);
    case "ended":
      return await followUpTurn(deps, message);
    case "warm":
      return await makeWarm(deps);
    case "release":
      await release(deps, message);
      return;
    case "base":
      return await buildBase(deps, message);
    case "webhook":
      // The version before this one sent these to the workers' queue; where they go is the queue adapter's to know.
      return await deps.work.send(message);
  }
}

/** A turn that has been continued since was followed up before it was. */
async function followUpTurn(deps: LaunchDeps, { taskId, turn }: Message<"ended">): Promise<void> {
  const task = await deps.store.getTask(taskId);
  if (task?.turn === turn) await followUp(deps, task);
}

const prepareTries = 10;

/** Makes a session ready ahead of its first turn. Nobody waits for it, so that it fails only hurts later. */
async function prepare(
  deps: LaunchDeps,
  { userId, sessionKey, attempt = 0 }: Message<"prepare">,
): Promise<void> {
  const session = await deps.store.getSession(userId, sessionKey);
  if (!session || session.deletedAt !== undefined) return;
  try {
    await deps.sessions.getOrCreateSession({ userId, sessionKey });
  } catch (error) {
    const isPassing =
      error instanceof NoRoomError || (error instanceof ProviderError && error.kind !== "refused");
    if (!isPassing || attempt >= prepareTries) throw error;
    const askedMs = error instanceof ProviderError ? error.retryAfterMs : undefined;
    const delayMs = retryDelayMs(attempt, `${app} ${userId} ${sessionKey}`, askedMs);
    await deps.work.send({ kind: "prepare", userId, sessionKey, attempt: attempt + 1 }, delayMs);
  }
}

/** What is not found out now is found out when it is next wanted. */
async function lookAround(deps: LaunchDeps, message: Message<"environment">): Promise<void> {
  const { userId, sessionKey, epoch } = message;
  const session = await deps.store.getSession(userId, sessionKey);
  if (session?.epoch !== epoch) return;
  try {
    await deps.sessions.refreshEnvironment({ userId, sessionKey });
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
  }
}
