import type { Deps, SandboxDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { sessionRetentionMs } from "../limits.ts";
import type { Task } from "../task/schema.ts";
import { decideLease } from "./decide.ts";
import type { Lease, Session } from "./schema.ts";

/** Takes the session for a turn, creating it where there is none; a session someone has is a `session_busy`. */
export async function takeLease(
  { store, clock, config }: Deps,
  where: { userId: string; sessionKey: string },
  want: { taskId: string; turn: number },
): Promise<void> {
  for (;;) {
    const session = await store.getSession(where.userId, where.sessionKey);
    const holder = session?.lease ? await store.getTask(session.lease.taskId) : undefined;
    const now = clock.now();
    const verdict = decideLease(session, holder, want, now);
    if (verdict.kind === "mine") return;
    if (verdict.kind === "busy") throw busy(where.sessionKey, verdict.holder);

    const lease = { ...want, at: now };
    const outcome = await store.changeSession(
      where.userId,
      where.sessionKey,
      { lease: verdict.over },
      {
        set: {
          lease,
          lastUsedAt: now,
          dueAt: now + config.sessionIdleMs,
          expiresAt: now + sessionRetentionMs,
        },
      },
    );
    if (outcome.won) return;
    // Someone else took it meanwhile. Each round of this loop is another's win, so it ends: in theirs or in ours.
  }
}

/** Gives the sandbox up: first in the record, then at the provider, then for good. Fenced by the epoch it had. */
export async function release(
  { store, provider, clock }: SandboxDeps,
  { userId, sessionKey, epoch }: { userId: string; sessionKey: string; epoch: number },
): Promise<void> {
  const session = await store.getSession(userId, sessionKey);
  if (!session?.sandbox || session.epoch !== epoch) return;
  if (session.sandbox.state !== "releasing" && (await whoHolds(store, session, clock.now())).held) return;

  const { name, createdAt } = session.sandbox;
  const releasing = await store.changeSession(
    userId,
    sessionKey,
    { lease: session.lease ?? null, epoch },
    { set: { sandbox: { state: "releasing", name, createdAt } } },
  );
  if (!releasing.won) return;

  await provider.remove(name);
  await store.changeSession(
    userId,
    sessionKey,
    { epoch },
    { set: { epoch: epoch + 1 }, remove: ["sandbox", "dueAt"] },
  );
}

/** A turn's sandbox has gone under it before it could begin: the record lets go of it. */
export async function forgetSandbox(
  { store }: Deps,
  { id, turn, userId, sessionKey }: Task,
  epoch: number,
): Promise<void> {
  const lease = (await store.getSession(userId, sessionKey))?.lease;
  if (lease?.taskId !== id || lease.turn !== turn) return;
  await store.changeSession(
    userId,
    sessionKey,
    { lease, epoch },
    { set: { epoch: epoch + 1 }, remove: ["sandbox"] },
  );
}

/** Whether a turn has the session, or is about to have it; and since when nobody had. */
export async function whoHolds(
  store: Deps["store"],
  session: Session,
  now: number,
): Promise<{ held: boolean; idleSince: number }> {
  const holder = session.lease && (await store.getTask(session.lease.taskId));
  const endedAt = holder && "endedAt" in holder.state ? holder.state.endedAt : 0;
  return {
    held: decideLease(session, holder, nobody, now).kind === "busy",
    idleSince: Math.max(session.lastUsedAt, endedAt),
  };
}

const nobody = { taskId: "", turn: 0 };

function busy(sessionKey: string, holder: Lease): AppError {
  return new AppError("session_busy", `Session ${sessionKey} is busy with ${holder.taskId}.`, {
    taskId: holder.taskId,
    turn: holder.turn,
  });
}
