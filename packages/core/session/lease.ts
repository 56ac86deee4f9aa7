import { requireCapacity } from "../capacity/slots.ts";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { sessionRetentionMs } from "../limits.ts";
import { isTerminal, type Task } from "../task/schema.ts";
import { decideLease } from "./decide.ts";
import { endOf } from "./release.ts";
import type { Lease } from "./schema.ts";

/**
 * Takes the session for a turn until about `until`, creating the session if needed. Throws `session_busy` if another
 * turn holds it.
 */
export async function takeLease(
  deps: Deps,
  where: { userId: string; sessionKey: string },
  { until, ...want }: { taskId: string; turn: number; until: number },
  known?: Task,
): Promise<void> {
  const { store, clock } = deps;
  for (;;) {
    const session = await store.getSession(where.userId, where.sessionKey);
    const holder = session?.lease && (await holderOf(deps, session.lease, known));
    const now = clock.now();
    const verdict = decideLease(session, holder, want, now);
    if (verdict.kind === "mine") return;
    if (verdict.kind === "busy") throw busy(where.sessionKey, verdict.holder);
    if (!session?.sandbox) await requireCapacity(deps, where, { patience: "request" });

    const lease = { ...want, at: now };
    const idleSince = session && Math.max(session.lastUsedAt, endOf(holder));
    const outcome = await store.changeSession(
      where.userId,
      where.sessionKey,
      { lease: verdict.over },
      {
        set: {
          lease,
          lastUsedAt: now,
          ...(idleSince !== undefined && { idleSince }),
          isIdle: false,
          // The end of the turn moves this. If that write is lost, the reaper looks after the deadline.
          dueAt: until + sessionDueSlackMs,
          expiresAt: now + sessionRetentionMs,
        },
        remove: ["deletedAt"],
      },
    );
    if (outcome.won) return;
    // Another process took it meanwhile. Each round of this loop is another's win, so it ends.
  }
}

/**
 * Frees the session of a task that was deleted. A lease on a missing task counts for a grace period, because its starter
 * may be about to write the task. This one will never be written, so its time is set back; otherwise the session would
 * look busy.
 */
export async function freeLease(
  { store }: Pick<Deps, "store">,
  { userId, sessionKey }: { userId: string; sessionKey: string },
  taskId: string,
): Promise<void> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  if (lease?.taskId === taskId)
    await store.changeSession(userId, sessionKey, { lease }, { set: { lease: { ...lease, at: 0 } } });
}

/** A continued conversation usually held the session itself, and an ended turn cannot get it back. Saves one read. */
async function holderOf({ store }: Deps, { taskId, turn }: Lease, known: Task | undefined) {
  const isKnown = known?.id === taskId && known.turn === turn && isTerminal(known.state.status);
  return isKnown ? known : await store.getTask(taskId);
}

const sessionDueSlackMs = 60_000;

export function busy(sessionKey: string, holder: Lease): AppError {
  return new AppError("session_busy", `Session ${sessionKey} is busy with ${holder.taskId}.`, {
    taskId: holder.taskId,
    turn: holder.turn,
  });
}

/** Whether the session still points to this turn. It does after the turn's end, until another turn takes the lease. */
export async function hasLease(
  { store }: Pick<Deps, "store">,
  { id, turn, userId, sessionKey }: Pick<Task, "id" | "turn" | "userId" | "sessionKey">,
): Promise<boolean> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  return lease?.taskId === id && lease.turn === turn;
}
