import type { RoomDeps } from "../deps.ts";
import { NoRoomError } from "../errors.ts";
import { createPollMs, longestCreateMs } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import { release, whoHolds } from "../session/release.ts";
import type { Session } from "../session/schema.ts";
import type { Slot } from "./schema.ts";

/** What is enough to look. */
type RecordDeps = Pick<RoomDeps, "store" | "clock" | "config">;

export interface TakenSlot {
  number: number;
  /**
   * Whose it was, where the session has it not: claimed for the session by someone who died before it was its, or who
   * is about to have it. Only who has won the session may take it away: whoever was slow to would take it from a turn.
   * The last of them had it last.
   */
  over: readonly string[];
}

/** Whose sandbox a slot is for: a session's, or nobody's yet. */
export type SlotOwner = { userId: string; sessionKey: string } | { pool: "warm" | "base" };

/**
 * Takes a slot before a sandbox is made. There are as many as there may be sandboxes, each taken by one conditional
 * write, so that the cap holds whoever races. A session that has one already goes on with it. Where all are taken,
 * the least recently used session that nobody holds is released for it; where there is none, that is a `NoRoomError`,
 * and nothing was made.
 */
export function takeSlot(deps: RoomDeps, name: string, owner: SlotOwner): Promise<TakenSlot>;
/** For one that its session names already; nothing where the session has gone on to another meanwhile. */
export function takeSlot(
  deps: RoomDeps,
  name: string,
  owner: SlotOwner,
  isNamed: true,
): Promise<TakenSlot | undefined>;
export async function takeSlot(
  deps: RoomDeps,
  name: string,
  owner: SlotOwner,
  isNamed = false,
): Promise<TakenSlot | undefined> {
  const { store, clock, config } = deps;
  for (let tries = 0; tries < slotTries; tries++) {
    const slots = await store.listSlots();
    const slot = { name, at: clock.now(), ...owner };

    // One that was made ahead brings its own; else the one that the session's sandbox before had.
    const own = slots.find((taken) => taken.name === name) ?? slots.find((taken) => isOf(taken, owner));
    if (own) {
      const { number } = own;
      const named = own.name === name ? name : await nameOf(deps, own);
      // Asked after the slots were read: whoever was first to have the session has the slot, or will ask for it again.
      if (isNamed && named !== name) return undefined;
      const isStrange = own.name !== named;
      if (isNamed && isStrange && (await wasMadeAhead(deps, own))) return undefined;
      const before = [...(own.over ?? []), ...(isStrange && !isNamed ? [own.name] : [])];
      const over = before.filter((one) => one !== name && one !== named);
      if (await store.takeSlot({ ...slot, number, ...takenOver(over) }, own.name)) return { number, over };
      continue;
    }
    const theirs = "userId" in owner ? ofUser(slots, owner.userId) : [];
    if ("userId" in owner && theirs.length >= config.poolMaxPerUser) {
      const number = await takeOver(deps, theirs, slot, tries, owner.userId);
      if (number !== undefined) return { number, over: [] };
      await clock.sleep(createPollMs);
      continue;
    }
    // There may be more than there may be, where there may now be fewer.
    const number = slots.length < config.poolMax ? freeNumber(slots, config.poolMax, name) : undefined;
    if (number === undefined) {
      if ("pool" in owner) throw new NoRoomError("There is no room for a sandbox made ahead.");
      const handedOn = await takeOver(deps, slots, slot, tries);
      if (handedOn !== undefined) return { number: handedOn, over: [] };
      await clock.sleep(createPollMs);
      continue;
    }
    if (!(await store.takeSlot({ ...slot, number }))) continue;
    if (!("userId" in owner) || (await staysUnderUserCap(deps, owner.userId))) return { number, over: [] };
    // Of those who took one at the same time each looks after he took: too many may give theirs back, none too few.
    await store.freeSlot(number, name);
  }
  throw new NoRoomError("Others were quicker each time; there may be room in a moment.");
}

const slotTries = 50;
/** One that is being given up is left to whoever does it, for so many looks. */
const releasingTries = 20;

/** The sandbox that the slot's session has. */
async function nameOf(
  { store }: RoomDeps,
  { userId = "", sessionKey = "" }: Slot,
): Promise<string | undefined> {
  return (await store.getSession(userId, sessionKey))?.sandbox?.name;
}

/** What is there already, unlike one whose maker first writes the session: he asks for the slot again after that. */
async function wasMadeAhead({ store }: RoomDeps, { name }: Slot): Promise<boolean> {
  return (await store.getWarm(name)) !== undefined;
}

/**
 * Makes sure of the slot once a record names the sandbox, which from then on nobody frees it under: whoever took it
 * may have been so slow that it was taken for a dead one's. Nothing where the session has gone on without him.
 */
export async function confirmSlot(
  deps: RoomDeps,
  number: number,
  name: string,
  owner: SlotOwner,
): Promise<number | undefined> {
  const slots = await deps.store.listSlots();
  const isOurs = slots.some((slot) => slot.number === number && slot.name === name);
  return isOurs ? number : (await takeSlot(deps, name, owner, true))?.number;
}

/** The slot of one that was made ahead goes to its session: mostly it is where its record says. */
export async function takeWarmSlot(
  deps: RoomDeps,
  name: string,
  number: number | undefined,
  owner: { userId: string; sessionKey: string },
): Promise<TakenSlot> {
  const slot = { name, at: deps.clock.now(), ...owner };
  const isThere = number !== undefined && (await deps.store.takeSlot({ ...slot, number }, name));
  return isThere ? { number, over: [] } : await takeSlot(deps, name, owner);
}

/**
 * Whoever lost the session gives its slot back: to the sandbox that the session has by now with that number, to the one
 * that he had it from and that may still be there, or to anyone.
 */
export async function giveBackSlot(
  { store, clock }: Pick<RoomDeps, "store" | "clock">,
  { number, over }: TakenSlot,
  name: string,
  owner: { userId: string; sessionKey: string },
): Promise<void> {
  const current = (await store.getSession(owner.userId, owner.sessionKey))?.sandbox;
  if (current?.name === name) return;
  const given = { number, at: clock.now(), ...owner };
  const last = over.at(-1);
  if (current?.slot === number) {
    const others = over.filter((one) => one !== current.name);
    await store.takeSlot({ ...given, name: current.name, ...takenOver(others) }, name);
  } else if (last !== undefined)
    await store.takeSlot({ ...given, name: last, ...takenOver(over.slice(0, -1)) }, name);
  else await store.freeSlot(number, name);
}

function takenOver(over: readonly string[]): Pick<Slot, "over"> {
  return over.length > 0 ? { over: [...over] } : {};
}

/** Before a sandbox that was made ahead is claimed: it is not to be claimed for someone who may not have it. */
export async function makeUserRoom(
  deps: RoomDeps,
  owner: { userId: string; sessionKey: string },
): Promise<void> {
  const { poolMaxPerUser, poolMax } = deps.config;
  if (poolMaxPerUser >= poolMax) return;
  const slots = await deps.store.listSlots();
  const theirs = ofUser(slots, owner.userId);
  if (theirs.length < poolMaxPerUser || slots.some((slot) => isOf(slot, owner))) return;
  const { idle } = await lookAround(deps, theirs, owner.userId);
  for (const { userId, key, epoch, lastUsedAt } of idle)
    if ((await release(deps, { userId, sessionKey: key, epoch, lastUsedAt })) !== undefined) return;
  throw inUse(theirs.length, owner.userId);
}

/** Whether a sandbox could be had now for someone who has none: asked before anything is written for him. */
export async function hasRoom(deps: RecordDeps, userId: string, sessionKey: string): Promise<boolean> {
  const { store, config } = deps;
  const slots = await store.listSlots();
  if (slots.some((slot) => isOf(slot, { userId, sessionKey }))) return true;
  const mine = ofUser(slots, userId);
  if (mine.length >= config.poolMaxPerUser && !isSpare(await lookAround(deps, mine, userId))) return false;
  if (slots.length < config.poolMax) return true;
  return slots.some((slot) => slot.pool === "warm") || isSpare(await lookAround(deps, slots));
}

/** Slots whose sandbox no record names any more, because whoever was to free them died. */
export async function freeStaleSlots(
  deps: Pick<RoomDeps, "store" | "clock" | "config" | "provider">,
): Promise<void> {
  for (const slot of await deps.store.listSlots()) if (await isStale(deps, slot)) await free(deps, slot);
}

async function free(deps: Pick<RoomDeps, "store" | "provider">, slot: Slot): Promise<void> {
  await vacate(deps, slot);
  await deps.store.freeSlot(slot.number, slot.name);
}

/** The sandbox may be there though nobody names it, and so may those before it: they go first. */
async function vacate({ provider }: Pick<RoomDeps, "provider">, { name, over = [] }: Slot): Promise<void> {
  for (const left of [...over, name]) await provider.remove(left);
}

/**
 * Gives up what nobody uses, the least recently used first, and takes its slot over: it goes from hand to hand, so that
 * nobody else can have it in between. Nothing where others are at it, and there may be one in a moment; a `NoRoomError`
 * where everything is in use.
 */
async function takeOver(
  deps: RoomDeps,
  slots: readonly Slot[],
  slot: Omit<Slot, "number">,
  tries: number,
  userId?: string,
): Promise<number | undefined> {
  const found = await lookAround(deps, slots, userId);
  const waited = tries >= releasingTries ? found.releasing : [];
  for (const { userId: of, key, epoch, lastUsedAt } of [...found.idle, ...waited]) {
    const number = await release(deps, { userId: of, sessionKey: key, epoch, lastUsedAt }, slot);
    if (number !== undefined) return number;
  }
  for (const stale of found.stale) {
    await vacate(deps, stale);
    if (await deps.store.takeSlot({ ...slot, number: stale.number }, stale.name)) return stale.number;
  }
  if (!isSpare(found)) throw inUse(slots.length, userId);
  return undefined;
}

function inUse(count: number, userId: string | undefined): NoRoomError {
  const whose = userId === undefined ? "there may be" : "you may have";
  return new NoRoomError(`Every one of the ${count} sandboxes that ${whose} is in use.`);
}

/** What could go, now or in a moment. */
interface Spare {
  /** Sessions that nobody holds, the least recently used first. */
  idle: Session[];
  releasing: Session[];
  /** Slots that nothing stands behind. */
  stale: Slot[];
  /** Someone is making one that no turn has. */
  isMaking: boolean;
}

function isSpare({ idle, releasing, stale, isMaking }: Spare): boolean {
  return idle.length > 0 || releasing.length > 0 || stale.length > 0 || isMaking;
}

async function lookAround(deps: RecordDeps, slots: readonly Slot[], userId?: string): Promise<Spare> {
  const { store, clock } = deps;
  const holding = (await store.listHoldingSessions()).filter(
    (session) => userId === undefined || session.userId === userId,
  );
  const free: { session: Session; idleSince: number }[] = [];
  await inParallel(holding, readsAtOnce, always, async ({ userId: of, key }) => {
    // The index may be behind: it is decided by the session itself.
    const session = await store.getSession(of, key);
    if (!session?.sandbox) return;
    const { held, isUsed, idleSince } = await whoHolds(store, session, clock.now());
    if (!held && !isUsed) free.push({ session, idleSince });
  });
  free.sort((a, b) => a.idleSince - b.idleSince);
  const those = (state: string) =>
    free.flatMap(({ session }) => (session.sandbox?.state === state ? [session] : []));
  const idle = those("ready");
  const stale: Slot[] = [];
  if (idle.length === 0) for (const slot of slots) if (await isStale(deps, slot)) stale.push(slot);
  return { idle, releasing: those("releasing"), stale, isMaking: those("creating").length > 0 };
}

const readsAtOnce = 8;
const always = () => true;

/**
 * Its sandbox is named by no record, and too old to be about to be; nor has its session another by that number: one who
 * took it for a sandbox that he did not live to make leaves it to the one there is.
 */
async function isStale({ store, clock }: RecordDeps, slot: Slot): Promise<boolean> {
  if (clock.now() - slot.at < longestCreateMs) return false;
  const warm = await store.getWarm(slot.name);
  if (warm && warm.state !== "claimed") return false;
  // Its session may be about to have it.
  if (warm && clock.now() - warm.claimedAt < longestCreateMs) return false;
  const { userId = "", sessionKey = "" } = warm ?? slot;
  const session = await store.getSession(userId, sessionKey);
  if (session?.sandbox?.name === slot.name || session?.sandbox?.slot === slot.number) return false;
  return !(session?.tombstones ?? []).some(({ name, until }) => name === slot.name && until > clock.now());
}

async function staysUnderUserCap({ store, config }: RecordDeps, userId: string): Promise<boolean> {
  if (config.poolMaxPerUser >= config.poolMax) return true;
  return ofUser(await store.listSlots(), userId).length <= config.poolMaxPerUser;
}

function ofUser(slots: readonly Slot[], userId: string): Slot[] {
  return slots.filter((slot) => slot.userId === userId);
}

function isOf(slot: Slot, owner: SlotOwner): boolean {
  return "userId" in owner && slot.userId === owner.userId && slot.sessionKey === owner.sessionKey;
}

/** Different names begin to look at different places, so that those who come at once seldom want the same. */
function freeNumber(slots: readonly Slot[], max: number, name: string): number | undefined {
  const taken = new Set(slots.map(({ number }) => number));
  let start = 0;
  for (const character of name) start = (start * 31 + character.charCodeAt(0)) % max;
  for (let i = 0; i < max; i++) if (!taken.has((start + i) % max)) return (start + i) % max;
  return undefined;
}
