import { makeSandbox } from "../base-snapshot/make.ts";
import { removeLeftovers, requireCapacity, takeSlot } from "../capacity/slots.ts";
import { claimWarm } from "../capacity/warm.ts";
import { ProviderError } from "../errors.ts";
import { sandboxName, sessionId } from "../ids.ts";
import { app, createPatienceMs } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import type { Origin } from "../task/schema.ts";
import {
  type AcquiredSandbox,
  type Acquisition,
  acquired,
  asRead,
  obsoleteWhenReady,
  type Replacement,
  renewedLease,
  usedAt,
} from "./acquire.ts";
import { filesOf } from "./decide.ts";
import { probe } from "./health.ts";
import type { Session } from "./schema.ts";

/** Another sandbox for the session: a warm one if there is one, otherwise a new one. */
export async function replaceSandbox(
  acquisition: Acquisition,
  replacement: Replacement | undefined,
): Promise<AcquiredSandbox | undefined> {
  const { metrics } = acquisition.deps;
  const isLost = replacement?.reason === "gone";
  try {
    const warm = await acquireWarm(acquisition, replacement);
    const replaced = warm === "none" ? await create(acquisition, replacement) : warm;
    if (isLost && replaced) metrics.count("recreated", 1, { outcome: "done" });
    return replaced;
  } catch (error) {
    if (isLost) {
      metrics.count("recreated", 1, { outcome: "failed" });
      acquisition.request.onRecreateFailed?.();
    }
    throw error;
  }
}

async function acquireWarm(
  acquisition: Acquisition,
  replacement: Replacement | undefined,
): Promise<AcquiredSandbox | "none" | undefined> {
  const { deps, request } = acquisition;
  if (replacement?.snapshotId !== undefined || deps.config.warmTarget === 0) return "none";
  const owner = ownerOf(acquisition);
  // Checked before the claim: a user whose share is full must not use up warm sandboxes.
  await requireCapacity(deps, owner, { isCounted: true, patience: "turn" });
  for (;;) {
    const warm = await claimWarm(deps, owner, request.until);
    if (!warm) return "none";
    const assigned = await assignWarm(acquisition, warm, replacement);
    if (assigned !== "gone") return assigned;
  }
}

/** Makes a claimed warm sandbox the session's own. If the session cannot take it, it is removed. */
async function assignWarm(
  acquisition: Acquisition,
  warm: LiveSandbox,
  replacement: Replacement | undefined,
): Promise<AcquiredSandbox | "gone" | undefined> {
  const { deps, request, session, steps } = acquisition;
  const { store, provider, clock } = deps;
  const owner = ownerOf(acquisition);
  const epoch = session.epoch + 1;
  const { name } = warm;
  const giveUp = async () => {
    await provider.remove(name);
    await store.deleteSlot(name);
  };
  try {
    const [found] = await Promise.all([
      steps.step("probing", name, () => probe(deps, request.userId, warm)),
      takeSlot(deps, { name, epoch }, owner, { isCounted: true }),
    ]);
    if (found.health !== "healthy") {
      await giveUp();
      return "gone";
    }
  } catch (error) {
    // An unanswered probe says nothing, but nobody else can claim this sandbox any more. The audit would come later.
    await giveUp().catch(() => {});
    throw error;
  }
  const now = clock.now();
  const outcome = await store.changeSession(request.userId, request.sessionKey, asRead(session), {
    set: {
      ...usedAt(acquisition, now),
      epoch,
      sandbox: { state: "ready", createdAt: now, ...warm, origin: "warm", extendedAt: now },
    },
    remove: obsoleteWhenReady,
  });
  if (!outcome.won) {
    // If our own write was applied and only its answer was lost, the sandbox is ours: the session is read again.
    if (outcome.item?.sandbox?.name !== name) await giveUp();
    return undefined;
  }
  await removeLeftovers(deps, session, { name, epoch });
  return acquired(acquisition, warm, epoch, "warm", replacedBy(replacement, false));
}

/**
 * The order: the session names the sandbox, its slot is taken, the session's earlier sandboxes are removed, and only
 * then the provider is asked. The process whose intent wins is the only one that creates for this epoch.
 */
async function create(
  acquisition: Acquisition,
  replacement: Replacement | undefined,
): Promise<AcquiredSandbox | undefined> {
  const { deps, request, session } = acquisition;
  const { store, clock, config } = deps;
  const { userId, sessionKey } = request;
  const epoch = session.epoch + 1;
  const name = sandboxName(app, config.stage, sessionId(userId, sessionKey), epoch);
  const owner = ownerOf(acquisition);
  await requireCapacity(deps, owner, { patience: "turn" });

  const createdAt = clock.now();
  const { snapshotId } = replacement ?? {};
  const intent = await store.changeSession(userId, sessionKey, asRead(session), {
    set: {
      ...usedAt(acquisition, createdAt),
      epoch,
      sandbox: {
        state: "creating",
        name,
        createdAt,
        by: request.by,
        until: createdAt + createPatienceMs,
        ...(snapshotId !== undefined && { snapshotId }),
      },
      // Kept until there is another sandbox, so that a retry can still tell the user what was lost.
      ...(replacement && replacement.reason !== "max_life" && { lost: replacement.reason }),
    },
    remove: ["deletedAt"],
  });
  if (!intent.won) return undefined;

  try {
    const slots = await takeSlot(deps, { name, epoch }, owner);
    await removeLeftovers(deps, session, { name, epoch }, { keepSnapshots: snapshotId !== undefined, slots });
    const made = await createFrom(acquisition, name, createdAt, snapshotId);
    if (!(await markReady(acquisition, intent.item, made))) return undefined;
    const kept = made.origin === "snapshot" && snapshotId !== undefined;
    return acquired(acquisition, made.sandbox, epoch, made.origin, replacedBy(replacement, kept));
  } catch (error) {
    const mayExist = error instanceof ProviderError && error.kind !== "refused";
    // A turn's retry looks for what this attempt may have created. Nobody else would.
    if (!(mayExist && request.holder)) await abandon(acquisition, intent.item, mayExist);
    throw error;
  }
}

function ownerOf({ request }: Acquisition) {
  return { userId: request.userId, sessionKey: request.sessionKey };
}

/** From the session's own snapshot if it has one, otherwise like any new sandbox. */
async function createFrom(
  { deps, request, steps }: Acquisition,
  name: string,
  createdAt: number,
  snapshotId: string | undefined,
): Promise<{ sandbox: LiveSandbox; origin: Origin }> {
  const { provider, config } = deps;
  const lifeMs = Math.max(request.until - createdAt, config.sessionIdleMs);
  const tags = { app, stage: config.stage, user: request.userId, session: request.sessionKey };
  const options = { name, tags, timeoutMs: Math.min(lifeMs, config.sandboxMaxMs) };
  if (snapshotId === undefined) return await makeSandbox(deps, options, steps.step);
  try {
    const restore = () => provider.create({ ...options, snapshotId });
    const detail = `${name}, with the files of the previous sandbox.`;
    return { sandbox: await steps.step("creating", detail, restore), origin: "snapshot" };
  } catch (error) {
    if (!(error instanceof ProviderError && error.kind === "gone")) throw error;
    return await makeSandbox(deps, options, steps.step);
  }
}

/**
 * Records that the sandbox is ready. If the session has moved to another epoch meanwhile, only this process knows the
 * sandbox, and removes it. A request outside a turn retries when a turn took the lease meanwhile.
 */
async function markReady(
  { deps, request }: Acquisition,
  intent: Session,
  { sandbox, origin }: { sandbox: LiveSandbox; origin: Origin },
): Promise<boolean> {
  const { store, provider, clock } = deps;
  const { epoch, sandbox: intended } = intent;
  const { createdAt = 0 } = intended ?? {};
  for (let current = intent; ; ) {
    const now = clock.now();
    const outcome = await store.changeSession(request.userId, request.sessionKey, asRead(current), {
      set: {
        ...renewedLease(request, current, now),
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
    if (request.holder) return false;
    current = outcome.item;
  }
}

/**
 * Gives up a create. Another process that waited long enough may have adopted the sandbox at the same epoch; then this
 * write loses and the sandbox stays. The slot stays while the create may still succeed.
 */
async function abandon({ deps, request }: Acquisition, intent: Session, mayExist: boolean): Promise<void> {
  const { store, provider } = deps;
  const { epoch, sandbox } = intent;
  const abandoned = await store.changeSession(
    request.userId,
    request.sessionKey,
    { epoch, maker: request.by },
    { set: { epoch: epoch + 1, ...(sandbox && filesOf(sandbox)) }, remove: ["sandbox"] },
  );
  if (!abandoned.won || !sandbox) return;
  try {
    await provider.remove(sandbox.name);
    if (!mayExist) await store.deleteSlot(sandbox.name);
  } catch (error) {
    // The audit of the slot removes it later.
    if (!(error instanceof ProviderError)) throw error;
  }
}

function replacedBy(replacement: Replacement | undefined, kept: boolean): AcquiredSandbox["replaced"] {
  return replacement && { reason: replacement.reason, kept };
}
