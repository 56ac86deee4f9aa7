import {
  type LiveSandbox,
  limits,
  type Origin,
  ProviderError,
  type Room,
  type Session,
  sandboxName,
  sessionId,
} from "@concierge/core";
import {
  claimWarm,
  filesOf,
  makeSandbox,
  removeLeftovers,
  requireRoom,
  takeSlot,
} from "@concierge/core/verbs";
import { probe } from "./health.ts";
import { type Attempt, inUse, moved, type Replaced, roomOf, seen, settled } from "./room.ts";

/** Another sandbox for the session, and whether one that was gone could be replaced. */
export async function make(tried: Attempt, replaced: Replaced | undefined): Promise<Room | undefined> {
  if (replaced?.reason !== "gone") return await makeAnother(tried, replaced);
  const { metrics } = tried.deps;
  try {
    const room = await makeAnother(tried, replaced);
    if (room) metrics.count("recreated", 1, { outcome: "done" });
    return room;
  } catch (error) {
    metrics.count("recreated", 1, { outcome: "failed" });
    throw error;
  }
}

/** One that was made ahead, else a new one. */
async function makeAnother(tried: Attempt, replaced: Replaced | undefined): Promise<Room | undefined> {
  const { deps, wish } = tried;
  const owner = ownerOf(tried);
  if (replaced?.snapshotId === undefined && deps.config.warmTarget > 0) {
    // Before one is claimed: a user whose share is full must not use up what was made ahead.
    await requireRoom(deps, owner, { isCounted: true });
    for (;;) {
      const warm = await claimWarm(deps, owner, wish.until);
      if (!warm) break;
      const room = await moveIn(tried, warm, replaced);
      if (room !== "gone") return room;
    }
  }
  return await create(tried, replaced);
}

/** A claimed sandbox becomes the session's; one that the session does not take goes. */
async function moveIn(
  tried: Attempt,
  warm: LiveSandbox,
  replaced: Replaced | undefined,
): Promise<Room | "gone" | undefined> {
  const { deps, wish, session, steps } = tried;
  const { store, provider, clock } = deps;
  const owner = ownerOf(tried);
  const epoch = session.epoch + 1;
  const { name } = warm;
  const giveUp = async () => {
    await provider.remove(name);
    await store.deleteSlot(name);
  };
  try {
    const [found] = await Promise.all([
      steps.step("probing", name, () => probe(deps, wish.userId, warm)),
      takeSlot(deps, { name, epoch }, owner, { isCounted: true }),
    ]);
    if (found.health !== "healthy") {
      await giveUp();
      return "gone";
    }
  } catch (error) {
    // A probe that got no answer says nothing; but nobody else can have it any more, and the audit would come later.
    await giveUp().catch(() => {});
    throw error;
  }
  const now = clock.now();
  const outcome = await store.changeSession(wish.userId, wish.sessionKey, seen(session), {
    set: {
      ...inUse(tried, now),
      epoch,
      sandbox: { state: "ready", createdAt: now, ...warm, origin: "warm", extendedAt: now },
    },
    remove: settled,
  });
  if (!outcome.won) {
    // Unless this very write was made, and only its answer was lost: then it is looked at again.
    if (outcome.item?.sandbox?.name !== name) await giveUp();
    return undefined;
  }
  await removeLeftovers(deps, session, { name, epoch });
  return roomOf(tried, warm, epoch, "warm", told(replaced, false));
}

/**
 * The record names the sandbox before it exists, then its slot is taken, then what the session had before goes, and only
 * then the provider is asked. The process that wins the record is the only one to do so for that epoch.
 */
async function create(tried: Attempt, replaced: Replaced | undefined): Promise<Room | undefined> {
  const { deps, wish, session } = tried;
  const { store, clock, config } = deps;
  const epoch = session.epoch + 1;
  const name = sandboxName(limits.app, config.stage, sessionId(wish.userId, wish.sessionKey), epoch);
  const owner = ownerOf(tried);
  await requireRoom(deps, owner, { isCounted: false });

  const createdAt = clock.now();
  const { snapshotId } = replaced ?? {};
  const intent = await store.changeSession(wish.userId, wish.sessionKey, seen(session), {
    set: {
      ...inUse(tried, createdAt),
      epoch,
      sandbox: {
        state: "creating",
        name,
        createdAt,
        by: wish.by,
        until: createdAt + limits.createPatienceMs,
        ...(snapshotId !== undefined && { snapshotId }),
      },
      // Until there is another, so that the next try can say what was lost.
      ...(replaced && replaced.reason !== "max_life" && { lost: replaced.reason }),
    },
    remove: ["deletedAt"],
  });
  if (!intent.won) return undefined;

  try {
    await takeSlot(deps, { name, epoch }, owner);
    await removeLeftovers(deps, session, { name, epoch }, { keepSnapshots: snapshotId !== undefined });
    const made = await makeFrom(tried, name, createdAt, snapshotId);
    const kept = made.origin === "snapshot" && snapshotId !== undefined;
    if (await isReady(tried, intent.item, made))
      return roomOf(tried, made.sandbox, epoch, made.origin, told(replaced, kept));
    return undefined;
  } catch (error) {
    const mayCome = error instanceof ProviderError && error.kind !== "refused";
    // A turn's next try looks for what this one may have made; nobody else would.
    if (!(mayCome && wish.holder)) await abandon(tried, intent.item, mayCome);
    throw error;
  }
}

function ownerOf({ wish }: Attempt) {
  return { userId: wish.userId, sessionKey: wish.sessionKey };
}

/** From the snapshot that the session moves with, or as every new one is made. */
async function makeFrom(
  { deps, wish, steps }: Attempt,
  name: string,
  createdAt: number,
  snapshotId: string | undefined,
): Promise<{ sandbox: LiveSandbox; origin: Origin }> {
  const { provider, config } = deps;
  const lifeMs = Math.max(wish.until - createdAt, config.sessionIdleMs);
  const tags = { app: limits.app, stage: config.stage, user: wish.userId, session: wish.sessionKey };
  const options = { name, tags, timeoutMs: Math.min(lifeMs, config.sandboxMaxMs) };
  if (snapshotId === undefined) return await makeSandbox(deps, options, steps.step);
  try {
    const from = () => provider.create({ ...options, snapshotId });
    const sandbox = await steps.step("creating", `${name}, with the files of the one before.`, from);
    return { sandbox, origin: "snapshot" };
  } catch (error) {
    if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
    return await makeSandbox(deps, options, steps.step);
  }
}

/**
 * The sandbox is there: the record says so, unless the session has gone on to another epoch meanwhile. Then nobody
 * else knows of it, and it goes. A lease that another took is no obstacle to a maker without a turn of its own.
 */
async function isReady(
  { deps, wish }: Attempt,
  intent: Session,
  { sandbox, origin }: { sandbox: LiveSandbox; origin: Origin },
): Promise<boolean> {
  const { store, provider, clock } = deps;
  const { epoch, sandbox: intended } = intent;
  const { createdAt = 0 } = intended ?? {};
  for (let current = intent; ; ) {
    const now = clock.now();
    const outcome = await store.changeSession(wish.userId, wish.sessionKey, seen(current), {
      set: {
        ...moved(wish, current, now),
        sandbox: { state: "ready", ...sandbox, createdAt, origin, extendedAt: now },
      },
      remove: ["lost", "snapshotId"],
    });
    if (outcome.won) return true;
    if (outcome.item?.epoch !== epoch) {
      await provider.remove(sandbox.name);
      await store.deleteSlot(sandbox.name);
      return false;
    }
    if (wish.holder) return false;
    current = outcome.item;
  }
}

/**
 * Nobody waits any longer for what was being made. Its slot stays while it may still come into being. Another that had
 * waited long enough may have found it and taken it into use, at the same epoch: then it is theirs.
 */
async function abandon({ deps, wish }: Attempt, intent: Session, mayCome: boolean): Promise<void> {
  const { store, provider } = deps;
  const { epoch, sandbox } = intent;
  const abandoned = await store.changeSession(
    wish.userId,
    wish.sessionKey,
    { epoch, maker: wish.by },
    { set: { epoch: epoch + 1, ...(sandbox && filesOf(sandbox)) }, remove: ["sandbox"] },
  );
  if (!abandoned.won || !sandbox) return;
  try {
    await provider.remove(sandbox.name);
    if (!mayCome) await store.deleteSlot(sandbox.name);
  } catch (error) {
    // The audit of its slot removes it later.
    if (!(error instanceof ProviderError)) throw error;
  }
}

function told(replaced: Replaced | undefined, kept: boolean): Room["replaced"] {
  return replaced && { reason: replaced.reason, kept };
}
