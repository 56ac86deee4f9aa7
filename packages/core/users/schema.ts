import * as z from "zod/mini";

const day = 24 * 60 * 60 * 1000;

const count = (max: number) => z.int().check(z.minimum(0), z.maximum(max));
const usd = (max: number) => z.number().check(z.minimum(0), z.maximum(max));
const duration = z.int().check(z.minimum(1000), z.maximum(day));

/** The most that one user may hold at once. Bounds the item that lists what is held. */
export const holdsMax = 500;

export const userLimitsFields = {
  /** The longest `limits.maxDurationMs` that a turn may have. */
  maxDurationMs: duration,
  maxInactivityMs: duration,
  /** The largest budget of one task. A task without a budget gets this one. */
  maxCostUsd: z.nullable(usd(10_000)),
  /** What all tasks of one day (UTC) may cost together. */
  maxCostUsdPerDay: z.nullable(usd(1_000_000)),
  /** Turns that have not ended. */
  maxConcurrentTasks: count(holdsMax),
  /** Turns that no worker has started yet. */
  maxQueuedTasks: count(holdsMax),
  /** Open event streams. */
  maxStreams: count(holdsMax),
  maxStreamsPerKey: count(holdsMax),
  requestsPerMinute: count(1_000_000),
  requestsPerMinutePerKey: count(1_000_000),
} as const;

/** A user's ceilings. `null`: none. */
export const userLimitsSchema = z
  .lazy(() => z.object(userLimitsFields))
  .register(z.globalRegistry, { id: "UserLimits" });

export type UserLimits = z.infer<typeof userLimitsSchema>;

/** What an admin sets for one user. `default` removes the user's own value. */
export const userLimitsRequestSchema = z
  .lazy(() => z.partial(z.strictObject(withDefault(userLimitsFields))))
  .register(z.globalRegistry, { id: "UserLimitsRequest" });

export type UserLimitsRequest = {
  [Name in keyof UserLimits]?: UserLimits[Name] | "default" | undefined;
};

/** The stored values of one user; the operator's defaults apply to the rest. */
export type StoredLimits = Partial<UserLimits>;

function withDefault<Fields extends Record<string, z.ZodMiniType>>(of: Fields) {
  const entries = Object.entries(of).map(([name, schema]) => [name, z.union([schema, z.literal("default")])]);
  return Object.fromEntries(entries) as {
    [Name in keyof Fields]: z.ZodMiniUnion<[Fields[Name], z.ZodMiniLiteral<"default">]>;
  };
}

/** What is counted for a user: turns that have not ended, open streams, webhooks under way. */
export type HoldKind = "turns" | "streams" | "webhooks";

/**
 * Something that counts towards a user's limits while it lasts. `groups` names the counts it is part of; each has its
 * own limit.
 */
export interface Hold {
  /** Identifies the holder further, and when: compared as it is. */
  value: string;
  groups: readonly string[];
}

export interface Holds {
  entries: Readonly<Record<string, Hold>>;
  counts: Readonly<Record<string, number>>;
}

/** A user who is being deleted, and since when. */
export interface Deletion {
  userId: string;
  at: number;
}
