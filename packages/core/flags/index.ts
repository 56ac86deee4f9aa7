import { createHash } from "node:crypto";
import type { Clock, Store } from "../ports.ts";
import type { AllFlags, FlagName, Flags } from "./schema.ts";
import { flagNames } from "./schema.ts";

const maxAgeMs = 10_000;

/** What is switched on, for whom: the table's word over the start values, never more than ten seconds old. */
export interface FlagReader {
  isOn(name: FlagName, userId: string): Promise<boolean>;
  all(): Promise<AllFlags>;
}

export function createFlagReader(
  { store, clock }: { store: Pick<Store, "getFlags">; clock: Clock },
  initial: AllFlags,
): FlagReader {
  let cached: { flags: AllFlags; readAt: number } | undefined;

  const all = async (): Promise<AllFlags> => {
    const now = clock.now();
    if (cached && now - cached.readAt < maxAgeMs) return cached.flags;
    const flags = withFlags(initial, await store.getFlags());
    cached = { flags, readAt: now };
    return flags;
  };

  return { all, isOn: async (name, userId) => isOnFor((await all())[name], name, userId) };
}

/** Changes the flags that are given; the others stay as they are. */
export async function putFlags(store: Store, change: Flags): Promise<void> {
  await store.putFlags({ ...(await store.getFlags()), ...change });
}

/** The flags as they are with a change of some. */
export function withFlags(flags: AllFlags, change: Flags): AllFlags {
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...flags, ...Object.fromEntries(given) };
}

/** A user who is among the first 10 % is among the first 50 % too, and each flag draws its users anew. */
export function isOnFor(value: string, name: FlagName, userId: string): boolean {
  if (value === "on") return true;
  if (value === "off") return false;
  const place = createHash("sha256").update(`${name}\0${userId}`).digest().readUInt32BE(0) % 100;
  return place < Number(value.slice(0, -1));
}

/** All flags with one value: a start, or a test's. */
export function allFlags(value: string): AllFlags {
  return Object.fromEntries(flagNames.map((name) => [name, value])) as AllFlags;
}
