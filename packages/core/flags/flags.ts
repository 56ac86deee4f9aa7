import { createHash } from "node:crypto";
import type { Clock, Store } from "../ports.ts";
import type { AllFlags, FlagName, Flags } from "./schema.ts";
import { flagNames } from "./schema.ts";

const maxAgeMs = 10_000;

/** Flags by user: the table's values over the start values, at most ten seconds old. */
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

/** Changes the given flags and leaves the others. */
export async function putFlags(store: Store, change: Flags): Promise<void> {
  await store.putFlags({ ...(await store.getFlags()), ...change });
}

export function withFlags(flags: AllFlags, change: Flags): AllFlags {
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...flags, ...Object.fromEntries(given) };
}

/** Users of the first 10 % are also in the first 50 %, and each flag picks its users independently. */
export function isOnFor(value: string, name: FlagName, userId: string): boolean {
  if (value === "on") return true;
  if (value === "off") return false;
  const place = createHash("sha256").update(`${name}\0${userId}`).digest().readUInt32BE(0) % 100;
  return place < Number(value.slice(0, -1));
}

/** All flags with the same value. */
export function allFlags(value: string): AllFlags {
  return Object.fromEntries(flagNames.map((name) => [name, value])) as AllFlags;
}
