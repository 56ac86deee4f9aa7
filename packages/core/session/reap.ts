import type { SandboxDeps } from "../deps.ts";
import { longestCreateMs } from "../limits.ts";
import { giveUp } from "./decide.ts";
import { release, whoHolds } from "./release.ts";
import type { Session } from "./schema.ts";

export type SessionFate = "kept" | "released" | "forgotten";

/** Looks after one session that is due: its tombstones, a sandbox that is gone, one that nobody has used for long. */
export async function reapSession(
  deps: SandboxDeps,
  where: { userId: string; key: string },
  { dryRun, evict }: { dryRun: boolean; evict: boolean },
): Promise<SessionFate> {
  const { store, clock, config } = deps;
  const session = await store.getSession(where.userId, where.key);
  if (!session) return "kept";
  const now = clock.now();
  if (!dryRun) await clearTombstones(deps, session, now);
  const { held, isUsed, idleSince } = await whoHolds(store, session, now);
  const idleAt = Math.max(idleSince + config.sessionIdleMs, session.keptUntil ?? 0);

  const isFree = session.sandbox !== undefined && !held && !isUsed;
  const gone = isFree && (await isGone(deps, session));
  if (!isFree || !(gone || evict || now >= idleAt)) {
    if (!dryRun) await lookAgain(deps, session, { held, idleAt: isFree ? idleAt : undefined });
    return "kept";
  }
  if (dryRun) return gone ? "forgotten" : "released";
  if (gone) return await forget(deps, session);
  const { userId, key: sessionKey, epoch, lastUsedAt } = session;
  await release(deps, { userId, sessionKey, epoch, lastUsedAt });
  return "released";
}

/** Gone, or never made by whoever began to. One whose time is over but that can be resumed is still the session's. */
async function isGone({ provider, clock }: SandboxDeps, { sandbox }: Session): Promise<boolean> {
  if (sandbox?.state === "creating") return sandbox.createdAt + longestCreateMs <= clock.now();
  if (sandbox?.state !== "ready") return false;
  return (await provider.probe(sandbox.name)).health === "gone";
}

async function forget({ store, provider, clock }: SandboxDeps, session: Session): Promise<SessionFate> {
  const { userId, key, epoch, lease = null, sandbox } = session;
  // Under the lease too: a turn that has just taken the session may find by its own clock that the sandbox still lives.
  const forgotten = await store.changeSession(
    userId,
    key,
    { epoch, lease },
    sandbox?.state === "creating"
      ? { set: { epoch: epoch + 1, ...giveUp(session, clock.now()) }, remove: ["sandbox"] }
      : {
          set: { epoch: epoch + 1, lost: "gone" },
          remove: session.tombstones ? ["sandbox"] : ["sandbox", "dueAt"],
        },
  );
  if (!forgotten.won || !sandbox) return "forgotten";
  if (sandbox.state === "creating") await provider.remove(sandbox.name);
  if (sandbox.slot !== undefined) await store.freeSlot(sandbox.slot, sandbox.name);
  return "forgotten";
}

async function lookAgain(
  { store, clock, config }: SandboxDeps,
  { userId, key, epoch, sandbox, tombstones = [] }: Session,
  { held, idleAt }: { held: boolean; idleAt: number | undefined },
): Promise<void> {
  const now = clock.now();
  const waits = held || sandbox !== undefined || tombstones.some(({ until }) => until > now);
  // In use it is looked at again soon enough not to be kept for much longer than it may be idle, after whatever ends that.
  const dueAt = idleAt ?? now + Math.min(minuteMs, config.sessionIdleMs);
  await store.changeSession(userId, key, { epoch }, waits ? { set: { dueAt } } : { remove: ["dueAt"] });
}

const minuteMs = 60_000;

/** A create that nobody waited for any more may have come into being after all. */
async function clearTombstones(
  { store, provider }: SandboxDeps,
  session: Session,
  now: number,
): Promise<void> {
  const { userId, key, epoch, tombstones = [] } = session;
  if (tombstones.length === 0) return;
  for (const { name } of tombstones) await provider.remove(name);
  const left = tombstones.filter(({ until }) => until > now);
  await store.changeSession(
    userId,
    key,
    { epoch },
    left.length > 0 ? { set: { tombstones: left } } : { remove: ["tombstones"] },
  );
}
