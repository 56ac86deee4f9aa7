import type { AcquireDeps, SandboxDeps } from "../deps.ts";
import { CapacityError } from "../errors.ts";
import { createPollMs, longestCreateMs } from "../limits.ts";
import { release, whoHolds } from "../session/release.ts";
import type { Session } from "../session/schema.ts";
import { countOf, decideCapacity, isOver, leftovers, type SlotOwner } from "./capacity.ts";
import type { Slot } from "./schema.ts";

type SessionOwner = { userId: string; sessionKey: string };
type RecordDeps = Pick<AcquireDeps, "store" | "clock" | "config">;

const slotTries = 20;

/**
 * Takes the right to one more sandbox, before the provider is asked. If the pool or the user's share is full, the least
 * recently used idle session is released; if nothing is idle, throws `CapacityError` and takes nothing. A warm sandbox
 * (`isCounted`) has a slot already; only its owner changes, and `requireCapacity` was asked before it was claimed.
 * Returns all slots, as read after this one was taken.
 */
export async function takeSlot(
  deps: AcquireDeps,
  { name, epoch }: { name: string; epoch?: number },
  owner: SlotOwner,
  { isCounted = false } = {},
): Promise<readonly Slot[]> {
  const { store, clock, config } = deps;
  for (let tries = 0; tries < slotTries; tries++) {
    const slot = { name, at: clock.now(), ...(epoch !== undefined && { epoch }), ...owner };
    const verdict = isCounted ? "available" : decideCapacity(await store.listSlots(), owner, config);
    const isTaken =
      verdict === "available" ? await put(deps, slot) : await takeOver(deps, slot, owner, verdict, tries);
    if (isTaken) {
      // Concurrent takers write first and re-check afterwards: the last of them sees all the others.
      const slots = await store.listSlots();
      if (!isOver(slots, owner, config)) return slots;
      await store.deleteSlot(name);
      // The caller gives the warm sandbox up.
      if (isCounted) break;
    }
    await clock.sleep(createPollMs * spread(name, tries, 7));
  }
  throw new CapacityError("Other requests took the last sandboxes. Try again in a moment.");
}

async function put({ store }: AcquireDeps, slot: Slot): Promise<boolean> {
  await store.putSlot(slot);
  return true;
}

/**
 * Releases an idle session. Its slot goes straight to the taker: the new slot is written before the old one is deleted,
 * so other takers never see it as free.
 */
async function takeOver(
  deps: AcquireDeps,
  slot: Slot,
  owner: SlotOwner,
  verdict: "pool full" | "user full",
  tries: number,
): Promise<boolean> {
  if ("pool" in owner) throw full(verdict, deps.config);
  if (verdict === "pool full" && (await giveUpWarm(deps, slot))) return true;
  const idle = await findIdle(deps, verdict === "user full" ? owner.userId : undefined, {
    skip: tries === 0 ? 0 : spread(slot.name, tries, idleListed),
  });
  // A sandbox that others release or start to use right now may be idle a moment later, so look again before giving up.
  if (!idle && tries < idleTries) return false;
  if (!idle) throw full(verdict, deps.config);
  const { userId, key: sessionKey, epoch, lastUsedAt } = idle;
  return await release(deps, { userId, sessionKey, epoch, lastUsedAt }, slot);
}

/** Removes a warm sandbox that this session cannot use, to free its slot. */
async function giveUpWarm({ store, provider }: AcquireDeps, successor: Slot): Promise<boolean> {
  for (const { name, state } of await store.listWarm()) {
    if (state !== "ready" || !(await store.deleteWarm(name, state))) continue;
    await provider.remove(name);
    await store.putSlot(successor);
    await store.deleteSlot(name);
    return true;
  }
  return false;
}

/**
 * Throws `CapacityError` if a session without a sandbox cannot get one now. Called before anything is written; reserves
 * nothing. A `request` is refused soon, so that its caller can decide; a `turn` waits a little longer.
 */
export async function requireCapacity(
  deps: RecordDeps & Pick<AcquireDeps, "metrics">,
  owner: SessionOwner,
  { isCounted = false, patience }: { isCounted?: boolean; patience: "request" | "turn" },
): Promise<void> {
  const { store, config, clock, metrics } = deps;
  for (let looks = 1; ; looks++) {
    const slots = await store.listSlots();
    const verdict = decideCapacity(slots, owner, config, isCounted);
    if (verdict === "available") return;
    if (verdict === "pool full" && slots.some(({ pool }) => pool === "warm")) return;
    if (await findIdle(deps, verdict === "user full" ? owner.userId : undefined)) return;
    if (looks >= capacityLooks[patience]) {
      if (patience === "request") metrics.count("room_refused");
      throw full(verdict, config);
    }
    // A turn that has just ended marks its session idle a moment later.
    const many = looks % 2 === 0 ? spread(`${owner.userId} ${owner.sessionKey}`, looks, 3) : 1;
    await clock.sleep(createPollMs * many);
  }
}

/** How often a full pool is looked at before it counts as full. */
const capacityLooks = { request: 2, turn: 10 } as const;
const idleTries = 5;

/** How many index entries are listed, and how many are read at a time. The index may be stale. */
const idleListed = 16;
const idleLookedAt = 3;

/**
 * The least recently used session that nobody uses, found with one index query; the records decide. Takers that lost a
 * race start at different places in the list (`skip`).
 */
export async function findIdle(
  deps: RecordDeps,
  userId?: string,
  { skip = 0 } = {},
): Promise<Session | undefined> {
  const { store, clock } = deps;
  const listed = await store.listIdleSessions(idleListed, userId);
  const from = listed.length === 0 ? 0 : skip % listed.length;
  const inTurn = [...listed.slice(from), ...listed.slice(0, from)];
  const look = async ({ userId: of, key }: { userId: string; key: string }) => {
    const session = await store.getSession(of, key);
    if (session?.sandbox?.state !== "ready") return [];
    const { held, isUsed, idleSince } = await whoHolds(store, session, clock.now());
    return held || isUsed ? [] : [{ session, idleSince }];
  };
  for (let at = 0; at < inTurn.length; at += idleLookedAt) {
    const found = await Promise.all(inTurn.slice(at, at + idleLookedAt).map(look));
    const [oldest] = found.flat().sort((a, b) => a.idleSince - b.idleSince);
    if (oldest) return oldest.session;
  }
  return undefined;
}

interface LeftoverOptions {
  keepSnapshots?: boolean;
  keepSlots?: boolean;
  /** If the caller has just read them. */
  slots?: readonly Slot[];
}

/** Removes a session's earlier sandboxes that may still exist. With `keepSlots` the audit deletes their slots later. */
export async function removeLeftovers(
  { store, provider, clock }: Pick<AcquireDeps, "store" | "provider" | "clock">,
  { userId, key: sessionKey, sandbox: before }: Pick<Session, "userId" | "key" | "sandbox">,
  { name, epoch }: { name: string; epoch: number },
  { keepSnapshots = false, keepSlots = false, slots }: LeftoverOptions = {},
): Promise<void> {
  const wasMade = before?.state === "creating" ? undefined : before?.name;
  for (const slot of leftovers(slots ?? (await store.listSlots()), { userId, sessionKey }, name, epoch)) {
    await provider.remove(slot.name, { keepSnapshots });
    if (keepSlots) continue;
    // The create of a young sandbox may still be under way. Its slot stays, so that the audit removes the sandbox
    // later.
    if (slot.name === wasMade || isOld(slot, clock.now())) await store.deleteSlot(slot.name);
  }
}

/** How many slots one pass audits, so that its cost does not grow with the pool. */
const auditedAtOnce = 20;

/**
 * Removes sandboxes whose slot no record refers to, because the process that should have deleted it died. Each pass
 * audits a part of the slots. Returns the names.
 */
export async function auditSlots(
  deps: SandboxDeps,
  slots: readonly Slot[],
  { dryRun }: { dryRun: boolean },
): Promise<string[]> {
  const { store, provider, clock } = deps;
  const found: string[] = [];
  const parts = Math.max(Math.ceil(slots.length / auditedAtOnce), 1);
  const part = Math.floor(clock.now() / auditEveryMs) % parts;
  for (const slot of slots.slice(part * auditedAtOnce, (part + 1) * auditedAtOnce)) {
    if (!isOld(slot, clock.now()) || (await isNamed(deps, slot))) continue;
    found.push(slot.name);
    if (dryRun) continue;
    await provider.remove(slot.name);
    await store.deleteSlot(slot.name);
  }
  return found;
}

const auditEveryMs = 60_000;

/** Whether a session, the warm pool or a base snapshot build refers to the slot's sandbox. */
export async function isNamed(
  { store, clock }: RecordDeps,
  { name, pool, userId = "", sessionKey = "" }: Omit<Slot, "at">,
): Promise<boolean> {
  if (pool === "base") {
    const base = await store.getBaseSnapshot();
    return base?.state === "building" && base.name === name && base.until > clock.now();
  }
  const session = userId === "" ? undefined : await store.getSession(userId, sessionKey);
  if (session?.sandbox?.name === name) return true;
  const warm = await store.getWarm(name);
  if (warm?.state !== "claimed") return warm !== undefined;
  // Its session may be about to record it, or has recorded it before the slot.
  if (clock.now() - warm.claimedAt < longestCreateMs) return true;
  return (await store.getSession(warm.userId, warm.sessionKey))?.sandbox?.name === name;
}

/**
 * The cap may have been lowered below current usage: releases the least recently used idle sessions. Returns how many.
 */
export async function evictOverCap(
  deps: SandboxDeps,
  slots: readonly Slot[],
  { dryRun, hasTime }: { dryRun: boolean; hasTime: () => boolean },
): Promise<number> {
  const excess = countOf(slots) - deps.config.poolMax;
  let evicted = 0;
  while (evicted < excess && hasTime()) {
    const idle = await findIdle(deps);
    if (!idle || dryRun) return evicted;
    const { userId, key: sessionKey, epoch, lastUsedAt } = idle;
    await release(deps, { userId, sessionKey, epoch, lastUsedAt });
    evicted += 1;
  }
  return evicted;
}

function isOld({ at }: Slot, now: number): boolean {
  return now - at >= longestCreateMs;
}

function full(
  verdict: "pool full" | "user full",
  { poolMax, poolMaxPerUser }: AcquireDeps["config"],
): CapacityError {
  return new CapacityError(
    verdict === "pool full"
      ? `All ${poolMax} sandboxes are in use. Try again in a moment.`
      : `All ${poolMaxPerUser} sandboxes of your share are in use. Try again in a moment.`,
  );
}

/** A small number that differs between takers and between tries. */
function spread(name: string, tries: number, most: number): number {
  const sum = [...name].reduce((total, character) => (total * 31 + character.charCodeAt(0)) % 9973, tries);
  return 1 + (sum % most);
}
