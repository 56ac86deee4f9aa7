import type { Slot } from "../capacity/schema.ts";
import type { AcquireDeps, Deps } from "../deps.ts";
import type { SandboxRef } from "../ports.ts";
import type { Task } from "../task/schema.ts";
import { idleOf } from "../usage/decide.ts";
import { addMeasures, addUsage } from "../usage/usage.ts";
import { decideLease, filesOf } from "./decide.ts";
import type { Session } from "./schema.ts";

type SessionName = { userId: string; sessionKey: string };

/** The reaper finishes a dead process's release after this. */
const releaseDueMs = 60_000;

/**
 * Gives the sandbox up: first in the record, then at the provider, then its slot, then finally in the record. Fenced by
 * the epoch, which both writes move, so a creator, user or other release loses its next write. With `lastUsedAt`, only
 * if nobody used it since. The slot goes to the `successor`, if any. True if this call gave the sandbox up.
 */
export async function release(
  deps: Pick<AcquireDeps, "store" | "provider" | "clock" | "metrics">,
  given: SessionName & { epoch: number; lastUsedAt?: number },
  successor?: Slot,
): Promise<boolean> {
  const { store, provider, clock } = deps;
  const { userId, sessionKey, epoch, lastUsedAt } = given;
  const session = await store.getSession(userId, sessionKey);
  if (!session?.sandbox || session.epoch !== epoch) return false;
  const now = clock.now();
  const { held, idleSince } = await whoHolds(store, session, now);
  if (session.sandbox.state !== "releasing" && held) return false;
  const { name } = session.sandbox;
  const releasing = await store.changeSession(
    userId,
    sessionKey,
    { lease: session.lease ?? null, epoch, ...(lastUsedAt !== undefined && { lastUsedAt }) },
    releasingChange(session, now),
  );
  if (!releasing.won) return false;
  await provider.remove(name);
  // A create that is still under way may succeed later. Then the slot stays, and the audit removes the sandbox.
  if (successor) await store.putSlot(successor);
  if (session.sandbox.state !== "creating") await store.deleteSlot(name);
  const released = await store.changeSession(
    userId,
    sessionKey,
    { epoch: epoch + 1 },
    { set: { epoch: epoch + 2, lost: "released" }, remove: ["sandbox", "dueAt"] },
  );
  // The reaper finished it meanwhile. The slot is the successor's in any case.
  if (!released.won) return successor !== undefined;
  const idleMs = idleOf(session, idleSince, now);
  deps.metrics.count("room_released");
  if (idleMs > 0) {
    deps.metrics.count("room_idle_ms", idleMs, { fate: "released" });
    const samples = await addUsage(deps, userId, { idleMs }, [["room_released", 1]]);
    await addMeasures(deps, samples, name);
  }
  return true;
}

/**
 * Marks a turn's sandbox for deletion, under the turn's own lease. Another process may have proven the end and let the
 * next turn in; a slow deletion must not take that turn's sandbox.
 */
export async function markReleasing(
  { store, clock }: Pick<Deps, "store" | "clock">,
  { userId, sessionKey }: SessionName,
  name: string,
  { taskId, turn }: { taskId: string; turn: number },
): Promise<(SessionName & { epoch: number }) | "not the session's" | "another's"> {
  for (;;) {
    const session = await store.getSession(userId, sessionKey);
    if (session?.sandbox?.name !== name) return "not the session's";
    const { lease, epoch, sandbox } = session;
    if (lease?.taskId !== taskId || lease.turn !== turn) return "another's";
    if (sandbox.state === "releasing") return { userId, sessionKey, epoch };
    const change = releasingChange(session, clock.now());
    const marked = await store.changeSession(userId, sessionKey, { lease, epoch }, change);
    if (marked.won) return { userId, sessionKey, epoch: epoch + 1 };
  }
}

/** Moves the epoch, so that a process that read the sandbox as ready cannot write that it still is. */
function releasingChange({ epoch, sandbox }: Session, now: number) {
  const { name = "", createdAt = now } = sandbox ?? {};
  return {
    set: {
      epoch: epoch + 1,
      sandbox: { state: "releasing", name, createdAt } as const,
      isIdle: false,
      dueAt: now + releaseDueMs,
      ...(sandbox && filesOf(sandbox)),
    },
  };
}

/** The sandbox was gone before the turn could start in it: removes it from the record. */
export async function forgetSandbox(
  { store }: Pick<Deps, "store">,
  { id, turn, userId, sessionKey }: Task,
  used: UsedSandbox,
): Promise<void> {
  const session = await stillHas(store, { userId, sessionKey }, used);
  const { lease, epoch = 0 } = session ?? {};
  if (lease?.taskId !== id || lease.turn !== turn) return;
  const change = { set: { epoch: epoch + 1, lost: "gone" }, remove: ["sandbox"] } as const;
  await store.changeSession(userId, sessionKey, { lease, epoch }, change);
}

/** The sandbox was found stopped in use: the next use probes and resumes it. */
export async function mustProbe(
  { store, clock }: Pick<Deps, "store" | "clock">,
  { userId, sessionKey }: SessionName,
  used: UsedSandbox,
): Promise<void> {
  const session = await stillHas(store, { userId, sessionKey }, used);
  if (session?.sandbox?.state !== "ready") return;
  const sandbox = { ...session.sandbox, expiresAt: Math.min(session.sandbox.expiresAt, clock.now()) };
  const guard = { epoch: session.epoch, lease: session.lease ?? null };
  await store.changeSession(userId, sessionKey, guard, { set: { sandbox } });
}

type UsedSandbox = { sandbox: SandboxRef };

/** The session, if it still has the sandbox in this provider session. Another process may have resumed it since. */
async function stillHas(
  store: Deps["store"],
  { userId, sessionKey }: SessionName,
  { sandbox: used }: UsedSandbox,
): Promise<Session | undefined> {
  const session = await store.getSession(userId, sessionKey);
  const { sandbox } = session ?? {};
  return sandbox?.state === "ready" && sandbox.sessionId === used.sessionId ? session : undefined;
}

const nobody = { taskId: "", turn: 0 };

/** Whether a turn holds the session or is about to, whether a command runs in it, and since when it has been idle. */
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

/** When a turn ended; 0 if it has not. */
export function endOf(task: Task | undefined): number {
  return task && "endedAt" in task.state ? task.state.endedAt : 0;
}
