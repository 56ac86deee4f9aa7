import type { SandboxDeps } from "../deps.ts";
import { longestCreateMs } from "../limits.ts";
import { filesOf, stillCreating } from "./decide.ts";
import { release, whoHolds } from "./release.ts";
import type { Session } from "./schema.ts";

export type SessionFate = "kept" | "released" | "forgotten";

/**
 * Handles a session that is due: finishes a dead process's release, forgets a sandbox that is gone, releases an idle
 * one.
 */
export async function reapSession(
  deps: SandboxDeps,
  where: { userId: string; key: string },
  { dryRun }: { dryRun: boolean },
): Promise<SessionFate> {
  const { store, clock, config } = deps;
  const session = await store.getSession(where.userId, where.key);
  if (!session) return "kept";
  const now = clock.now();
  const { held, isUsed, idleSince } = await whoHolds(store, session, now);
  const idleAt = Math.max(idleSince + config.sessionIdleMs, session.keptUntil ?? 0);
  const { sandbox } = session;

  // Move the due time before acting: a session that keeps failing must not block the others.
  if (!dryRun) await lookAgain(deps, session, { isIdle: !held, at: held || isUsed ? undefined : idleAt });
  if (!sandbox || (sandbox.state !== "releasing" && (held || isUsed))) return "kept";
  const isGone = await hasGone(deps, sandbox);
  if (!isGone && sandbox.state !== "releasing" && now < idleAt) return "kept";
  if (dryRun) return isGone ? "forgotten" : "released";
  if (isGone) return await forget(deps, session, sandbox);
  const { userId, key: sessionKey, epoch, lastUsedAt } = session;
  await release(deps, { userId, sessionKey, epoch, lastUsedAt });
  return "released";
}

type Sandbox = NonNullable<Session["sandbox"]>;

/**
 * Gone, or never created because its creator died. A stopped sandbox can be resumed and still belongs to the session.
 */
async function hasGone({ provider, clock }: SandboxDeps, sandbox: Sandbox): Promise<boolean> {
  if (sandbox.state === "creating") return sandbox.createdAt + longestCreateMs <= clock.now();
  return sandbox.state === "ready" && (await provider.probe(sandbox.name)).health === "gone";
}

/** Guarded by the lease too: a turn that has just taken the session may still find the sandbox alive. */
async function forget(
  { store, provider }: SandboxDeps,
  session: Session,
  sandbox: Sandbox,
): Promise<SessionFate> {
  const { userId, key, epoch, lease } = session;
  const lost = sandbox.state === "ready" ? { lost: "gone" as const } : {};
  const forgotten = await store.changeSession(
    userId,
    key,
    { epoch, lease: lease ?? null, ...stillCreating(session) },
    { set: { epoch: epoch + 1, ...lost, ...filesOf(sandbox) }, remove: ["sandbox", "dueAt"] },
  );
  if (!forgotten.won) return "kept";
  if (sandbox.state === "creating") await provider.remove(sandbox.name);
  await store.deleteSlot(sandbox.name);
  return "forgotten";
}

async function lookAgain(
  { store, clock, config }: SandboxDeps,
  { userId, key, epoch, lease, sandbox }: Session,
  { isIdle, at }: { isIdle: boolean; at: number | undefined },
): Promise<void> {
  const now = clock.now();
  const soon = now + Math.min(minuteMs, config.sessionIdleMs);
  const dueAt = at === undefined ? soon : Math.max(at, soon);
  const change = sandbox ? { set: { dueAt, isIdle } } : ({ remove: ["dueAt"] } as const);
  await store.changeSession(userId, key, { epoch, lease: lease ?? null }, change);
}

const minuteMs = 60_000;
