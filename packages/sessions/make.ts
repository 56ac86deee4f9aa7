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
  confirmSlot,
  giveBackSlot,
  giveUp,
  makeSandbox,
  makeUserRoom,
  takeSlot,
  takeWarmSlot,
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
  const owner = { userId: wish.userId, sessionKey: wish.sessionKey };
  if (replaced?.snapshotId === undefined) {
    await makeUserRoom(deps, owner);
    for (;;) {
      const warm = await claimWarm(deps, owner, wish.until);
      if (!warm) break;
      const room = await moveIn(tried, warm, replaced);
      if (room !== "gone") return room;
    }
  }
  return await create(tried, replaced);
}

/** A claimed sandbox becomes the session's; one that the session does not take is nobody's, and goes. */
async function moveIn(
  tried: Attempt,
  { sandbox: warm, slot: known }: { sandbox: LiveSandbox; slot: number | undefined },
  replaced: Replaced | undefined,
): Promise<Room | "gone" | undefined> {
  const { deps, wish, session, steps } = tried;
  const { store, provider, clock } = deps;
  const owner = { userId: wish.userId, sessionKey: wish.sessionKey };
  const [taken, found] = await Promise.all([
    takeWarmSlot(deps, warm.name, known, owner),
    steps.step("probing", warm.name, () => probe(deps, wish.userId, warm)),
  ]);
  const giveUpWarm = async () => {
    await provider.remove(warm.name);
    await giveBackSlot(deps, taken, warm.name, owner);
  };
  if (found.health !== "healthy") {
    await giveUpWarm();
    return "gone";
  }
  const now = clock.now();
  const epoch = session.epoch + 1;
  const outcome = await store.changeSession(wish.userId, wish.sessionKey, seen(session), {
    set: {
      ...inUse(tried, now),
      epoch,
      sandbox: {
        state: "ready",
        createdAt: now,
        ...warm,
        origin: "warm",
        extendedAt: now,
        slot: taken.number,
      },
      ...giveUp(session, now, taken.over),
    },
    remove: settled,
  });
  if (!outcome.won) {
    await giveUpWarm();
    return undefined;
  }
  await removeOld(tried, outcome.item);
  return roomOf(tried, warm, epoch, "warm", told(replaced, false));
}

async function create(tried: Attempt, replaced: Replaced | undefined): Promise<Room | undefined> {
  const { deps, wish, session } = tried;
  const { store, clock, config } = deps;
  const epoch = session.epoch + 1;
  const name = sandboxName(limits.app, config.stage, sessionId(wish.userId, wish.sessionKey), epoch);
  const owner = { userId: wish.userId, sessionKey: wish.sessionKey };
  const taken = await takeSlot(deps, name, owner);

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
        slot: taken.number,
        by: wish.by,
        until: createdAt + limits.createPatienceMs,
        ...(snapshotId !== undefined && { snapshotId }),
      },
      // Until there is another, so that whoever tries again can tell of it.
      ...(replaced && replaced.reason !== "max_life" && { lost: replaced.reason }),
      ...giveUp(session, createdAt, taken.over),
    },
    remove: ["deletedAt"],
  });
  if (!intent.won) {
    await giveBackSlot(deps, taken, name, owner);
    return undefined;
  }

  try {
    // Only now: whoever lost the session meanwhile must not take from it what another turn may be running in.
    await removeOld(tried, intent.item, { keepSnapshots: snapshotId !== undefined });
    const slot = await confirmSlot(deps, taken.number, name, owner);
    if (slot === undefined) return undefined;
    const made = { ...(await makeFrom(tried, name, createdAt, snapshotId)), slot };
    const isOurs = await isReady(tried, intent.item, made);
    const kept = made.origin === "snapshot" && snapshotId !== undefined;
    if (isOurs) return roomOf(tried, made.sandbox, epoch, made.origin, told(replaced, kept));
    return undefined;
  } catch (error) {
    const mayCome = error instanceof ProviderError && error.kind !== "refused";
    // A turn's next try looks for what this one may have made; nobody else would, until it is nobody's any more.
    if (!(mayCome && wish.holder)) await abandon(tried, intent.item);
    throw error;
  }
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
 * else knows of it, and it goes. A lease that another took is no hindrance to who made it for no turn of his own.
 */
async function isReady(
  { deps, wish }: Attempt,
  intent: Session,
  { sandbox, origin, slot }: { sandbox: LiveSandbox; origin: Origin; slot: number },
): Promise<boolean> {
  const { store, provider, clock } = deps;
  const { epoch, sandbox: intended } = intent;
  const { createdAt = 0 } = intended ?? {};
  for (let current = intent; ; ) {
    const now = clock.now();
    const outcome = await store.changeSession(wish.userId, wish.sessionKey, seen(current), {
      set: {
        ...moved(wish, current, now),
        sandbox: {
          state: "ready",
          ...sandbox,
          createdAt,
          origin,
          extendedAt: now,
          slot,
        },
      },
      remove: ["lost"],
    });
    if (outcome.won) return true;
    if (outcome.item?.epoch !== epoch) {
      await provider.remove(sandbox.name);
      await store.freeSlot(slot, sandbox.name);
      return false;
    }
    if (wish.holder) return false;
    current = outcome.item;
  }
}

/**
 * Nobody waits any longer for what was being made; should it come into being after all, its name is looked for. Another
 * who had waited long enough may have found it there and taken it into use, at the same epoch: then it is his.
 */
async function abandon({ deps, wish }: Attempt, intent: Session): Promise<void> {
  const { store, provider, clock } = deps;
  const { epoch, sandbox } = intent;
  const snapshotId = sandbox?.state === "creating" ? sandbox.snapshotId : undefined;
  const abandoned = await store.changeSession(
    wish.userId,
    wish.sessionKey,
    { epoch, maker: wish.by },
    {
      set: {
        epoch: epoch + 1,
        ...giveUp(intent, clock.now()),
        ...(snapshotId !== undefined && { snapshotId }),
      },
      remove: ["sandbox"],
    },
  );
  if (!abandoned.won || !sandbox) return;
  await provider.remove(sandbox.name).catch((error: unknown) => {
    // Its name is kept until it can not come into being any more.
    if (!(error instanceof ProviderError)) throw error;
  });
  if (sandbox.slot !== undefined) await store.freeSlot(sandbox.slot, sandbox.name);
}

/** All that the session had before and that may still be there, whoever failed to take it away: it goes before another comes. */
async function removeOld(
  { deps, session }: Attempt,
  { tombstones = [] }: Session,
  options = { keepSnapshots: false },
): Promise<void> {
  for (const { name } of tombstones) await deps.provider.remove(name, options);
  const old = session.sandbox;
  // Where the new one brought a slot of its own this is another's; else it has the new one's name by now.
  if (old?.slot !== undefined) await deps.store.freeSlot(old.slot, old.name);
}

function told(replaced: Replaced | undefined, kept: boolean): Room["replaced"] {
  return replaced && { reason: replaced.reason, kept };
}
