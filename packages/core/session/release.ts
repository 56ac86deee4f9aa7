import { idleOf } from "../cost/decide.ts";
import { addUsage } from "../cost/index.ts";
import type { Deps, RoomDeps } from "../deps.ts";
import type { Slot } from "../pool/schema.ts";
import type { Room } from "../ports.ts";
import type { Task } from "../task/schema.ts";
import { decideLease, giveUp } from "./decide.ts";
import type { Session } from "./schema.ts";

/**
 * Gives the sandbox up: first in the record, then at the provider, then for good. Fenced by the epoch it had, which
 * both writes move: whoever is making it, means to use it, or means to give it up too, finds another. Where it goes
 * because nobody used it since, whoever uses it now keeps it. Its slot is free then, or goes straight to whoever it was
 * given up for. Tells the slot, where it was this call that gave it up.
 */
export async function release(
  deps: Pick<RoomDeps, "store" | "provider" | "clock" | "metrics">,
  given: { userId: string; sessionKey: string; epoch: number; lastUsedAt?: number },
  slotFor?: Omit<Slot, "number">,
): Promise<number | undefined> {
  const { store, provider, clock } = deps;
  const { userId, sessionKey, epoch, lastUsedAt } = given;
  const session = await store.getSession(userId, sessionKey);
  if (!session?.sandbox || session.epoch !== epoch) return undefined;
  const now = clock.now();
  const { held, idleSince } = await whoHolds(store, session, now);
  if (session.sandbox.state !== "releasing" && held) return undefined;
  const { name, createdAt, slot } = session.sandbox;
  const releasing = await store.changeSession(
    userId,
    sessionKey,
    { lease: session.lease ?? null, epoch, ...(lastUsedAt !== undefined && { lastUsedAt }) },
    {
      set: {
        epoch: epoch + 1,
        sandbox: { state: "releasing", name, createdAt, ...(slot !== undefined && { slot }) },
        ...(session.sandbox.state === "creating" && giveUp(session, now)),
      },
    },
  );
  if (!releasing.won) return undefined;
  await provider.remove(name);
  const released = await store.changeSession(
    userId,
    sessionKey,
    { epoch: epoch + 1 },
    // With a name that may still come into being, someone must look at it again.
    {
      set: { epoch: epoch + 2, lost: "released" },
      remove: releasing.item.tombstones ? ["sandbox"] : ["sandbox", "dueAt"],
    },
  );
  if (!released.won) return undefined;
  const idleMs = idleOf(session, idleSince, now);
  deps.metrics.count("room_released");
  if (idleMs > 0) {
    deps.metrics.count("room_idle_ms", idleMs, { fate: "released" });
    await addUsage(deps, userId, { idleMs });
  }
  if (slot === undefined) return undefined;
  const isHandedOn = slotFor
    ? await store.takeSlot({ ...slotFor, number: slot }, name)
    : await store.freeSlot(slot, name);
  return isHandedOn ? slot : undefined;
}

/** A turn's sandbox has gone under it before it could begin: the record lets go of it. */
export async function forgetSandbox(
  { store }: Pick<Deps, "store">,
  { id, turn, userId, sessionKey }: Task,
  { sandbox: gone, epoch }: Pick<Room, "sandbox" | "epoch">,
): Promise<void> {
  const { lease, sandbox } = (await store.getSession(userId, sessionKey)) ?? {};
  if (lease?.taskId !== id || lease.turn !== turn) return;
  // Resumed since by another worker, in a provider session of its own: that one is not gone.
  if (sandbox?.state !== "ready" || sandbox.sessionId !== gone.sessionId) return;
  await store.changeSession(
    userId,
    sessionKey,
    { lease, epoch },
    { set: { epoch: epoch + 1, lost: "gone" }, remove: ["sandbox"] },
  );
}

const nobody = { taskId: "", turn: 0 };

/** Whether a turn has the session, or is about to have it; whether a command runs in it; and since when nobody had it. */
export async function whoHolds(
  store: Deps["store"],
  session: Session,
  now: number,
): Promise<{ held: boolean; isUsed: boolean; idleSince: number }> {
  const holder = session.lease && (await store.getTask(session.lease.taskId));
  return {
    held: decideLease(session, holder, nobody, now).kind === "busy",
    isUsed: (session.usedUntil ?? 0) > now,
    idleSince: Math.max(session.lastUsedAt, endOf(holder)),
  };
}

/** When a turn ended; never, where it has not. */
export function endOf(task: Task | undefined): number {
  return task && "endedAt" in task.state ? task.state.endedAt : 0;
}
