import type { Slot } from "./schema.ts";

/** The owner of a slot's sandbox: a session, or a pool. */
export type SlotOwner = { userId: string; sessionKey: string } | { pool: "warm" | "base" };

export interface Caps {
  poolMax: number;
  poolMaxPerUser: number;
}

export type CapacityVerdict = "available" | "pool full" | "user full";

/**
 * Whether one more sandbox may be created for an owner. A session counts once, however many slots it has, so it can
 * replace its sandbox at the cap. A warm sandbox is counted already (`isCounted`).
 */
export function decideCapacity(
  slots: readonly Slot[],
  owner: SlotOwner,
  { poolMax, poolMaxPerUser }: Caps,
  isCounted = false,
): CapacityVerdict {
  const others = slots.filter((slot) => !isOf(slot, owner));
  if (others.length < slots.length && "userId" in owner) return "available";
  if ("userId" in owner && countOf(ofUser(others, owner.userId)) >= poolMaxPerUser) return "user full";
  return isCounted || countOf(others) < poolMax ? "available" : "pool full";
}

/**
 * Whether a slot that was just written exceeds the cap. Concurrent takers write first and re-check afterwards. The last
 * of them sees all the others, so the cap is never exceeded; at worst two takers of the last slot both back off.
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
 * A session's earlier sandboxes: its slots of older epochs, and those that lost this epoch. A process that claimed a
 * warm sandbox may have died before it wrote the session; that sandbox would run beside the winner's.
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
