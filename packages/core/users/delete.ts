import type { Deps, SandboxDeps } from "../deps.ts";
import { AppError, ProviderError } from "../errors.ts";
import { usageRetentionMs } from "../limits.ts";
import { deleteSession } from "../session/verbs.ts";
import { causes } from "../task/decide.ts";
import { removeTask } from "../task/delete.ts";
import { endTurn } from "../task/end.ts";
import { isTerminal, type Task } from "../task/schema.ts";
import { dayOf } from "../usage/decide.ts";

const dayMs = 24 * 60 * 60_000;
const tasksPerStep = 50;
/** A request that was accepted before the keys were revoked has ended by then. */
const settleMs = 30_000;
/** The pause before the next step if something could not be removed yet. */
const retryMs = 5_000;
/** A step starts only with this much time left. */
const stepMinMs = 10_000;

/**
 * Begins to delete a user: the mark, after which no key is created, then the keys. A worker does the rest, because
 * running turns have to be stopped and sandboxes removed.
 */
export async function requestUserDeletion(deps: Deps, userId: string): Promise<void> {
  const { store, clock, work, config } = deps;
  if (userId === config.adminUserId)
    throw new AppError("invalid_request", "The operator's own user cannot be deleted.");
  await store.putDeletion({ userId, at: clock.now() });
  await revokeKeys(deps, userId);
  await work.send({ kind: "forget", userId }, 0, userId);
}

/**
 * One step of a deletion: as much as fits into the time that is left. Every part can be repeated, so a step that dies
 * is done again by a redelivery or by the reaper. What cannot be removed yet, such as a turn whose end is not proven, is
 * tried again later.
 */
export async function forgetUser(deps: SandboxDeps, userId: string): Promise<void> {
  const { store, clock, work } = deps;
  const deletion = await store.getDeletion(userId);
  if (!deletion) return;
  const isClean = await removeAll(deps, userId);
  if (isClean && clock.now() - deletion.at >= settleMs) {
    await store.deleteDeletion(userId);
    return;
  }
  await work.send({ kind: "forget", userId }, isClean ? settleMs : retryMs, userId);
}

/** True if nothing of the user was left. */
async function removeAll(deps: SandboxDeps, userId: string): Promise<boolean> {
  const { store, clock } = deps;
  await revokeKeys(deps, userId);
  if (!(await removeTasks(deps, userId))) return false;
  if (!(await removeSessions(deps, userId))) return false;
  const days = Math.ceil(usageRetentionMs / dayMs);
  await store.purgeUsage(
    userId,
    Array.from({ length: days + 1 }, (_, day) => dayOf(clock.now() - day * dayMs)),
  );
  await store.purgeUser(userId);
  return true;
}

async function revokeKeys({ store }: Deps, userId: string): Promise<void> {
  let after: string | undefined;
  do {
    const page = await store.listKeys({ limit: 100, userId, ...(after !== undefined && { after }) });
    for (const { id } of page.items) await store.deleteKey(id);
    after = page.next;
  } while (after !== undefined);
}

async function removeTasks(deps: SandboxDeps, userId: string): Promise<boolean> {
  let isClean = true;
  let after: string | undefined;
  do {
    const options = { limit: tasksPerStep, ...(after !== undefined && { after }) };
    const page = await deps.store.listTasks(userId, options);
    for (const task of page.items) {
      if (deps.timeLeftMs() < stepMinMs) return false;
      isClean = (await removeOne(deps, task)) && isClean;
    }
    after = page.next;
  } while (after !== undefined);
  return isClean;
}

/** Stops the task if it is active. False if it could not be removed yet. */
async function removeOne(deps: SandboxDeps, listed: Task): Promise<boolean> {
  const task = isTerminal(listed.state.status)
    ? listed
    : await endTurn(deps, listed, causes.stopped, "worker");
  if (!isTerminal(task.state.status)) return false;
  return await succeeds(() => removeTask(deps, task));
}

async function removeSessions(deps: SandboxDeps, userId: string): Promise<boolean> {
  let isClean = true;
  for (const sessionKey of await deps.store.listSessionKeys(userId)) {
    if (deps.timeLeftMs() < stepMinMs) return false;
    await succeeds(() => deleteSession(deps, { userId, sessionKey }));
    isClean = (await deps.store.purgeSession(userId, sessionKey)) && isClean;
  }
  return isClean;
}

/** False if another process was faster or the provider did not answer: the next step looks again. */
async function succeeds(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof AppError || error instanceof ProviderError) return false;
    throw error;
  }
}
