import type { RoomDeps, SandboxDeps } from "../deps.ts";
import { NoRoomError } from "../errors.ts";
import { createPollMs, longestCreateMs } from "../limits.ts";
import { release, whoHolds } from "../session/release.ts";
import type { Session } from "../session/schema.ts";
import { countOf, decideCapacity, isOver, leftovers, type SlotOwner } from "./capacity.ts";
import type { Slot } from "./schema.ts";

type SessionOwner = { userId: string; sessionKey: string };
type RecordDeps = Pick<RoomDeps, "store" | "clock" | "config">;

const slotTries = 20;

/**
 * Takes the right to one more sandbox, before the provider is asked for it. Where the pool or the user's share of it is
 * full, an idle session is released, the least recently used first; where nothing is idle, that is a `NoRoomError`, and
 * nothing was taken. A sandbox that was made ahead (`isCounted`) has a slot already: only its owner changes.
 */
export async function takeSlot(
  deps: RoomDeps,
  { name, epoch }: { name: string; epoch?: number },
  owner: SlotOwner,
  { isCounted = false } = {},
): Promise<void> {
  const { store, clock, config } = deps;
  for (let tries = 0; tries < slotTries; tries++) {
    const slot = { name, at: clock.now(), ...(epoch !== undefined && { epoch }), ...owner };
    const verdict = decideCapacity(await store.listSlots(), owner, config, isCounted);
    const isTaken =
      verdict === "room" ? await put(deps, slot) : await takeOver(deps, slot, owner, verdict, tries);
    if (isTaken) {
      // Takers that race each write first and look afterwards: the last of them sees all the others.
      if (!isOver(await store.listSlots(), owner, config)) return;
      await store.deleteSlot(name);
      // The caller gives the sandbox up that was made ahead.
      if (isCounted) break;
    }
    await clock.sleep(createPollMs * spread(name, tries, 7));
  }
  throw new NoRoomError("Others took the last sandboxes first; there may be one in a moment.");
}

async function put({ store }: RoomDeps, slot: Slot): Promise<boolean> {
  await store.putSlot(slot);
  return true;
}

/**
 * Gives up what nobody uses. Its slot goes straight to the taker: the new one is written before the old one is deleted,
 * so that the place never looks free to the others that wait for one.
 */
async function takeOver(
  deps: RoomDeps,
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
  // What others give up or take into use at this moment may be idle in the next: a look or two more decide.
  if (!idle && tries < idleTries) return false;
  if (!idle) throw full(verdict, deps.config);
  const { userId, key: sessionKey, epoch, lastUsedAt } = idle;
  return await release(deps, { userId, sessionKey, epoch, lastUsedAt }, slot);
}

/** A warm sandbox that this session could not use makes room for it. */
async function giveUpWarm({ store, provider }: RoomDeps, successor: Slot): Promise<boolean> {
  for (const { name, state } of await store.listWarm()) {
    if (state !== "ready" || !(await store.deleteWarm(name, state))) continue;
    await provider.remove(name);
    await store.putSlot(successor);
    await store.deleteSlot(name);
    return true;
  }
  return false;
}

/** Whether a sandbox could be had now for a session that has none: asked before anything is written for it. */
export async function hasRoom(
  deps: RecordDeps,
  owner: SessionOwner,
  { isCounted = false } = {},
): Promise<boolean> {
  const { store, config, clock } = deps;
  for (let tries = 0; ; tries++) {
    const slots = await store.listSlots();
    const verdict = decideCapacity(slots, owner, config, isCounted);
    if (verdict === "room") return true;
    if (verdict === "pool full" && slots.some(({ pool }) => pool === "warm")) return true;
    if (await findIdle(deps, verdict === "user full" ? owner.userId : undefined)) return true;
    // A turn that has just ended marks its session idle a moment later.
    if (tries > 0) return false;
    await clock.sleep(createPollMs);
  }
}

/** The same for a caller that goes on only if there is, and that can wait a moment for it. */
export async function requireRoom(
  deps: RoomDeps,
  owner: SessionOwner,
  options: { isCounted: boolean },
): Promise<void> {
  for (let tries = 0; tries < idleTries; tries++) {
    if (await hasRoom(deps, owner, options)) return;
    await deps.clock.sleep(createPollMs * spread(`${owner.userId} ${owner.sessionKey}`, tries, 3));
  }
  throw new NoRoomError("All sandboxes are in use.");
}

/** How often a full pool is looked at before it is called full. */
const idleTries = 5;

/** How many index entries are listed, and how many of them are looked at: some may be behind. */
const idleListed = 16;
const idleLookedAt = 3;

/**
 * The least recently used session that nobody uses, by one query of an index; the records decide. Takers that lost a race
 * for it begin at different places of the list (`skip`).
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

/** What a session had before and that may still be there goes before the session gets another. */
export async function removeLeftovers(
  { store, provider, clock }: Pick<RoomDeps, "store" | "provider" | "clock">,
  { userId, key: sessionKey, sandbox: before }: Pick<Session, "userId" | "key" | "sandbox">,
  { name, epoch }: { name: string; epoch: number },
  options = { keepSnapshots: false },
): Promise<void> {
  const wasMade = before?.state === "creating" ? undefined : before?.name;
  for (const slot of leftovers(await store.listSlots(), { userId, sessionKey }, name, epoch)) {
    await provider.remove(slot.name, options);
    // The create of a young one may still be under way. Its slot stays, so that the audit removes what comes of it.
    if (slot.name === wasMade || isOld(slot, clock.now())) await store.deleteSlot(slot.name);
  }
}

/** How many slots one pass audits: its cost stays the same, however large the pool is. */
const auditedAtOnce = 20;

/**
 * Finds slots that no record stands behind, because the process that was to delete them died: a part of them each time,
 * in turn. What may still be there is removed first. Returns the names.
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

/** Whether a record names the sandbox of a slot: the session, the warm pool, or the build of the base snapshot. */
export async function isNamed(
  { store, clock }: RecordDeps,
  { name, pool, userId = "", sessionKey = "" }: Omit<Slot, "at">,
): Promise<boolean> {
  if (pool === "base") {
    const base = await store.getBase();
    return base?.state === "building" && base.name === name && base.until > clock.now();
  }
  const session = userId === "" ? undefined : await store.getSession(userId, sessionKey);
  if (session?.sandbox?.name === name) return true;
  const warm = await store.getWarm(name);
  if (warm?.state !== "claimed") return warm !== undefined;
  // Its session may be about to have it, or has it though the slot does not say so yet.
  if (clock.now() - warm.claimedAt < longestCreateMs) return true;
  return (await store.getSession(warm.userId, warm.sessionKey))?.sandbox?.name === name;
}

/** Over the cap, because it was lowered, the least recently used idle sessions go. Returns how many. */
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
  { poolMax, poolMaxPerUser }: RoomDeps["config"],
): NoRoomError {
  return new NoRoomError(
    verdict === "pool full"
      ? `All ${poolMax} sandboxes are in use.`
      : `All ${poolMaxPerUser} sandboxes that you may have are in use.`,
  );
}

/** A small number that differs from taker to taker, and from try to try. */
function spread(name: string, tries: number, most: number): number {
  const sum = [...name].reduce((total, character) => (total * 31 + character.charCodeAt(0)) % 9973, tries);
  return 1 + (sum % most);
}
