import {
  type LiveSandbox,
  limits,
  type Origin,
  ProviderError,
  type ReadySandbox,
  type ReplaceReason,
  type Room,
  type RoomDeps,
  type RoomRequest,
  type Session,
} from "@concierge/core";
import { decideLife, decideRoom, mustProbe, renewed, stillMaking, whoHolds } from "@concierge/core/verbs";
import { probe } from "./health.ts";
import { make } from "./make.ts";
import { createSteps, type Steps } from "./steps.ts";

export interface Wish extends Omit<RoomRequest, "holder"> {
  /** Whoever makes the sandbox, if it has to be made. */
  by: string;
  holder: RoomRequest["holder"] | undefined;
  /** The session as it was read a moment ago. A write that is made by it loses where it has changed since. */
  seen?: Session | undefined;
}

/** One look at the session, and what is to be done by it. Every write is conditional on what was seen. */
export interface Attempt {
  deps: RoomDeps;
  wish: Wish;
  session: Session;
  steps: Steps;
}

/** What a new sandbox takes the place of. */
export interface Replaced {
  reason: ReplaceReason;
  /** Its files are in here. */
  snapshotId?: string | undefined;
}

/** The session's own sandbox where it can be used, else another, named in the record before it exists. */
export async function giveRoom(deps: RoomDeps, wish: Wish): Promise<Room | "unwanted" | "not the holder"> {
  const steps = createSteps(deps.clock, wish.progress);
  for (let { seen } = wish; ; seen = undefined) {
    const session = seen ?? (await readSession(deps, wish));
    // Asked after the session was read: a stop writes the task first and then moves the lease, so a turn that is still
    // wanted here has its lease as it was read, and a stop that comes now makes each later write to the session lose.
    if (!(await wish.isWanted())) return "unwanted";
    if (!isHeldBy(session, wish.holder)) return "not the holder";
    const room = await attempt({ deps, wish, session, steps });
    if (room) return room;
    // Another wrote the session meanwhile, or is about to: it is looked at again.
  }
}

async function attempt(tried: Attempt): Promise<Room | undefined> {
  const { deps, wish, session, steps } = tried;
  const { provider, clock } = deps;
  const verdict = decideRoom(session, wish.by, clock.now());
  switch (verdict.kind) {
    case "make":
      return await make(tried, replacedBy(session));
    case "wait":
      await clock.sleep(verdict.ms);
      return undefined;
    case "look for": {
      const { name, snapshotId } = verdict.sandbox;
      const found = await steps.step("probing", name, () => provider.probe(name));
      // What was to be installed in it may not have been.
      const isWhole = deps.config.setup === undefined || snapshotId !== undefined;
      const replaced =
        snapshotId === undefined ? replacedBy(session) : { reason: "max_life" as const, snapshotId };
      if (found.health !== "healthy" || !isWhole) return await make(tried, replaced);
      return await use(tried, found.sandbox, snapshotId === undefined ? "cold" : "snapshot", replaced);
    }
    case "probe": {
      const { name } = verdict.sandbox;
      const found = await steps.step("probing", name, () => probe(deps, wish.userId, verdict.sandbox));
      if (found.health === "healthy") return await use(tried, found.sandbox, "reused");
      if (found.health === "gone") return await make(tried, { reason: "gone" });
      const resumed = await steps.step("resuming", name, () => resume(tried, name));
      return resumed ? await use(tried, resumed, "resumed") : await make(tried, { reason: "gone" });
    }
  }
}

/** Nothing where it is gone after all. A resume that is refused (a quota, a plan) keeps the sandbox, and is an error. */
async function resume({ deps }: Attempt, name: string): Promise<LiveSandbox | undefined> {
  try {
    const live = await deps.provider.resume(name);
    deps.metrics.count("resumed", 1, { outcome: "done" });
    return live;
  } catch (error) {
    deps.metrics.count("resumed", 1, { outcome: "failed" });
    if (error instanceof ProviderError && error.kind === "gone") return undefined;
    throw error;
  }
}

/** Takes a sandbox that runs into use: it must last, and the record must say so before anyone relies on it. */
async function use(
  tried: Attempt,
  live: LiveSandbox,
  origin: Origin,
  replaced?: Replaced,
): Promise<Room | undefined> {
  const { deps, wish, session } = tried;
  const { clock, config } = deps;
  const known = session.sandbox?.state === "ready" ? session.sandbox : undefined;
  const extendedAt = known?.sessionId === live.sessionId ? known.extendedAt : clock.now();
  const life = decideLife(
    { ...live, extendedAt },
    { until: wish.until, idleMs: config.sessionIdleMs, maxMs: config.sandboxMaxMs },
    clock.now(),
  );
  const asItIs = { live, extendedAt, origin, replaced };
  if (life.kind === "lasts") return await keep(tried, asItIs);

  // One does it, and the others wait: ten who extend it would push it out tenfold, and ten who move it lose it.
  const marked = known ? await mark(tried, known) : tried;
  if (!marked) return undefined;
  try {
    if (life.kind === "extend" && (await isExtended(deps, live, life.byMs))) {
      const extended = { ...live, expiresAt: live.expiresAt + life.byMs };
      return await keep(marked, { ...asItIs, live: extended, extendedAt: clock.now() });
    }
    // It is never taken from under a turn: whoever only looks in has it for as long as it is there.
    if (await isAnothers(tried)) return await keep(marked, asItIs);
    return await move(marked, live);
  } catch (error) {
    if (known) await unmark(marked, known);
    if (!known || !(error instanceof SandboxOver)) throw error instanceof SandboxOver ? error.cause : error;
    await mustProbe(deps, wish, { sandbox: live });
    return undefined;
  }
}

/**
 * It stopped after it was looked at, or a snapshot whose answer was lost has stopped it: its files are still there. It is
 * looked at again, and resumed. Making another instead would delete the files.
 */
class SandboxOver extends Error {}

function asOver(error: unknown): unknown {
  const isOver = error instanceof ProviderError && (error.kind === "stopped" || error.kind === "gone");
  return isOver ? new SandboxOver(error.message, { cause: error }) : error;
}

interface Kept {
  live: LiveSandbox;
  extendedAt: number;
  origin: Origin;
  replaced: Replaced | undefined;
}

async function keep(tried: Attempt, { live, extendedAt, origin, replaced }: Kept): Promise<Room | undefined> {
  const { deps, wish, session } = tried;
  const now = deps.clock.now();
  const { createdAt = now } = session.sandbox ?? {};
  const madeAs = session.sandbox?.state === "ready" ? session.sandbox.origin : origin;
  const outcome = await deps.store.changeSession(wish.userId, wish.sessionKey, seen(session), {
    set: {
      ...inUse(tried, now),
      sandbox: {
        state: "ready",
        ...live,
        createdAt,
        origin: madeAs,
        extendedAt,
      },
    },
    remove: settled,
  });
  if (!outcome.won) return undefined;
  const kept = replaced?.snapshotId !== undefined;
  return roomOf(tried, live, session.epoch, origin, replaced && { reason: replaced.reason, kept });
}

/** What is no longer so once the session has a sandbox. */
export const settled = ["lost", "snapshotId", "deletedAt"] as const;

async function mark(tried: Attempt, known: ReadySandbox): Promise<Attempt | undefined> {
  const { deps, wish, session } = tried;
  const now = deps.clock.now();
  const busy = { by: wish.by, until: now + limits.sandboxBusyMs };
  const set = { ...moved(wish, session, now), sandbox: { ...known, busy } };
  // A mark of our own, whose answer was lost or whose worker died, is no obstacle: the lease says who goes on.
  const guard = { ...seen(session), ...(known.busy?.by !== wish.by && { notBusyAt: now }) };
  const marked = await deps.store.changeSession(wish.userId, wish.sessionKey, guard, { set });
  return marked.won ? { ...tried, session: marked.item } : undefined;
}

async function unmark({ deps, wish, session }: Attempt, known: ReadySandbox): Promise<void> {
  const { busy: _, ...sandbox } = known;
  await deps.store.changeSession(wish.userId, wish.sessionKey, seen(session), { set: { sandbox } });
}

async function isAnothers({ deps, wish, session }: Attempt): Promise<boolean> {
  return wish.holder === undefined && (await whoHolds(deps.store, session, deps.clock.now())).held;
}

async function isExtended({ provider }: RoomDeps, live: LiveSandbox, byMs: number): Promise<boolean> {
  try {
    await provider.extend(live, byMs);
    return true;
  } catch (error) {
    if (error instanceof ProviderError && error.kind === "refused") return false;
    throw asOver(error);
  }
}

/** The plan's end is near: the turn goes on in another sandbox with the same files, instead of dying in the middle. */
async function move(tried: Attempt, live: LiveSandbox): Promise<Room | undefined> {
  const { provider } = tried.deps;
  const snapshotId = await tried.steps.step(
    "moving",
    `${live.name} is near the end of its life.`,
    async () => {
      try {
        return await provider.snapshot(live, limits.moveSnapshotMs);
      } catch (error) {
        if (error instanceof ProviderError && error.kind === "refused") return undefined;
        throw asOver(error);
      }
    },
  );
  return await make(tried, { reason: "max_life", snapshotId });
}

/** The lease and the epoch exactly as they were read, and the sandbox still being made where it was. */
export function seen(session: Session) {
  const { lease, epoch } = session;
  return { lease: lease ?? null, epoch, ...stillMaking(session) };
}

/** A holder's lease moves with every write of his, so that whoever saw less must look again. */
export function moved({ holder }: Wish, { lease }: Session, now: number) {
  return holder && lease ? { lease: renewed(lease, now) } : {};
}

/** What each use writes. The reaper looks after a turn's deadline, or once a session without one has been idle. */
export function inUse({ deps, wish, session }: Attempt, now: number) {
  const isIdle = !wish.holder && (session.isIdle ?? session.lease === undefined);
  const dueAt = Math.max(wish.holder ? wish.until : 0, now + deps.config.sessionIdleMs);
  return {
    ...moved(wish, session, now),
    lastUsedAt: now,
    isIdle,
    dueAt,
    expiresAt: now + limits.sessionRetentionMs,
  };
}

export function roomOf(
  { wish, session, steps }: Attempt,
  sandbox: LiveSandbox,
  epoch: number,
  origin: Origin,
  replaced?: Room["replaced"],
): Room {
  const { environment, idleSince, lastUsedAt, resetAt } = session;
  const isKnown = environment?.sandbox === sandbox.sessionId;
  const wasKept = wish.holder && idleSince !== undefined && (origin === "reused" || origin === "resumed");
  return {
    sandbox,
    epoch,
    origin,
    steps: steps.taken,
    environmentDue: !isKnown || lastUsedAt - environment.probedAt > limits.environmentFreshMs,
    ...(resetAt !== undefined && { resetAt }),
    ...(wasKept && { idleMs: Math.max(lastUsedAt - idleSince, 0) }),
    ...(replaced && { replaced }),
  };
}

function replacedBy({ lost, sandbox, snapshotId }: Session): Replaced | undefined {
  if (snapshotId !== undefined) return { reason: "max_life", snapshotId };
  if (sandbox?.state === "releasing") return { reason: "released" };
  return lost && { reason: lost };
}

function isHeldBy({ lease }: Session, holder: Wish["holder"]): boolean {
  return holder === undefined || (lease?.taskId === holder.taskId && lease.turn === holder.turn);
}

/** A session that nobody has made yet is made by whoever wants it first. */
async function readSession({ store, clock }: RoomDeps, { userId, sessionKey }: Wish): Promise<Session> {
  for (;;) {
    const session = await store.getSession(userId, sessionKey);
    if (session) return session;
    const now = clock.now();
    const fresh = { lastUsedAt: now, expiresAt: now + limits.sessionRetentionMs };
    const made = await store.changeSession(userId, sessionKey, { lease: null }, { set: fresh });
    if (made.won) return made.item;
  }
}
