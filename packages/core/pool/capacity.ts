import type { Slot } from "./schema.ts";

/** Whose sandbox a slot is for: a session's, or nobody's yet. */
export type SlotOwner = { userId: string; sessionKey: string } | { pool: "warm" | "base" };

export interface Caps {
  poolMax: number;
  poolMaxPerUser: number;
}

export type CapacityVerdict = "room" | "pool full" | "user full";

/**
 * Whether one more sandbox may be made for an owner. A session counts once, however many slots it has: it replaces its
 * sandbox within the room it holds. One that was made ahead counts already (`isCounted`).
 */
export function decideCapacity(
  slots: readonly Slot[],
  owner: SlotOwner,
  { poolMax, poolMaxPerUser }: Caps,
  isCounted = false,
): CapacityVerdict {
  const others = slots.filter((slot) => !isOf(slot, owner));
  if (others.length < slots.length && "userId" in owner) return "room";
  if ("userId" in owner && countOf(ofUser(others, owner.userId)) >= poolMaxPerUser) return "user full";
  return isCounted || countOf(others) < poolMax ? "room" : "pool full";
}

/**
 * Whether a slot that was just written is one too many. Takers that race each write first and look afterwards. The last
 * of them sees all the others, so the cap is never exceeded; at worst two that wanted the last slot both back off.
 */
export function isOver(slots: readonly Slot[], owner: SlotOwner, caps: Caps): boolean {
  if (countOf(slots) > caps.poolMax) return true;
  return "userId" in owner && countOf(ofUser(slots, owner.userId)) > caps.poolMaxPerUser;
}

/** How many sandboxes the slots stand for. */
export function countOf(slots: readonly Slot[]): number {
  return new Set(slots.map(({ name, userId, sessionKey }) => (userId ? `${userId} ${sessionKey}` : name)))
    .size;
}

/**
 * What a session had before: its own slots of an older epoch, and those that lost this one. A process that claimed a warm
 * sandbox may have died before it wrote the session; its sandbox would run beside the one that won the epoch.
 */
export function leftovers(slots: readonly Slot[], owner: SlotOwner, name: string, epoch: number): Slot[] {
  return slots.filter((slot) => isOf(slot, owner) && slot.name !== name && (slot.epoch ?? 0) <= epoch);
}

function isOf(slot: Slot, owner: SlotOwner): boolean {
  return "userId" in owner && slot.userId === owner.userId && slot.sessionKey === owner.sessionKey;
}

function ofUser(slots: readonly Slot[], userId: string): Slot[] {
  return slots.filter((slot) => slot.userId === userId);
}
