import { requireCapacity } from "../capacity/slots.ts";
import type { Deps, SandboxDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { sessionRetentionMs } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import type { Health, Page, SessionName } from "../ports.ts";
import { busy } from "./lease.ts";
import { checkHealth, invalidateSession } from "./prepare.ts";
import { whoHolds } from "./release.ts";
import type { Session } from "./schema.ts";
import { type SessionView, viewSession } from "./view.ts";

/** The user's session. A deleted one is not found. */
export async function getSession({ store }: Deps, { userId, sessionKey }: SessionName): Promise<Session> {
  const session = await store.getSession(userId, sessionKey);
  if (!session || session.deletedAt !== undefined) throw noSuchSession();
  return session;
}

export function noSuchSession(): AppError {
  return new AppError("not_found", "The session does not exist.");
}

export async function showSession(
  { store, clock }: Deps,
  session: Session,
  health?: Health,
): Promise<SessionView> {
  const now = clock.now();
  return viewSession(session, await whoHolds(store, session, now), health ?? null, now);
}

export async function listSessions(
  deps: SandboxDeps,
  userId: string,
  { probe, ...options }: { limit: number; after?: string; probe: boolean },
): Promise<Page<SessionView>> {
  const { items, next } = await deps.store.listSessions(userId, options);
  const shown = new Map<string, SessionView>();
  await inParallel(items, probesAtOnce, always, async (session) => {
    const { key } = session;
    const asked = probe && session.sandbox !== undefined;
    const health = asked ? await checkHealth(deps, { userId, sessionKey: key }) : undefined;
    shown.set(key, await showSession(deps, session, health));
  });
  return { items: items.flatMap(({ key }) => shown.get(key) ?? []), next };
}

const probesAtOnce = 8;
const always = () => true;

/** Gets or creates the session. If its sandbox is not ready, a worker prepares it. */
export async function requestSession(
  deps: SandboxDeps,
  name: SessionName,
): Promise<{ session: Session; health: Health }> {
  const { store, work } = deps;
  const { userId, sessionKey } = name;
  const existing = await store.getSession(userId, sessionKey);
  const health = existing?.sandbox ? await checkHealth(deps, name) : "gone";
  if (existing && health === "healthy") return { session: existing, health };
  if (!existing?.sandbox) await requireCapacity(deps, name, { patience: "request" });
  const session = existing && existing.deletedAt === undefined ? existing : await open(deps, name, existing);
  await work.send({ kind: "prepare", userId, sessionKey }, 0, userId);
  return { session, health };
}

async function open(
  { store, clock }: Deps,
  name: SessionName,
  deleted: Session | undefined,
): Promise<Session> {
  const now = clock.now();
  const outcome = await store.changeSession(
    name.userId,
    name.sessionKey,
    { lease: deleted?.lease ?? null },
    { set: { lastUsedAt: now, expiresAt: now + sessionRetentionMs }, remove: ["deletedAt"] },
  );
  // If the write lost, another process has opened the session.
  if (!outcome.item) throw new AppError("internal", "The session could not be stored.");
  return outcome.item;
}

/** Starts a new conversation with the agent in the same sandbox. */
export async function resetSession(deps: Deps, name: SessionName): Promise<Session> {
  const { store, clock } = deps;
  for (;;) {
    const session = await idleSession(deps, name);
    const { userId, key, lease = null, epoch } = session;
    const reset = await store.changeSession(userId, key, { lease, epoch }, { set: { resetAt: clock.now() } });
    if (reset.won) return reset.item;
  }
}

/** Deletes the session and its sandbox. Throws `session_busy` while a turn holds it. */
export async function deleteSession(deps: SandboxDeps, name: SessionName): Promise<void> {
  const { store, clock } = deps;
  for (;;) {
    await idleSession(deps, name);
    if (!(await invalidateSession(deps, name))) continue;
    const session = await store.getSession(name.userId, name.sessionKey);
    if (!session) return;
    const { userId, key, lease = null, epoch, sandbox } = session;
    if (sandbox) continue;
    const set = { deletedAt: clock.now() };
    const deleted = await store.changeSession(
      userId,
      key,
      { lease, epoch },
      { set, remove: ["environment"] },
    );
    if (deleted.won) return;
  }
}

async function idleSession(deps: Deps, name: SessionName): Promise<Session> {
  const session = await getSession(deps, name);
  const { held } = await whoHolds(deps.store, session, deps.clock.now());
  if (held && session.lease) throw busy(name.sessionKey, session.lease);
  return session;
}
