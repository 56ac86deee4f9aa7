import * as z from "zod/mini";
import { bounded, ownId, providerId, sessionKey, textOf, userId, wordOf } from "../bounds.ts";
import { environmentNameMaxLength, environmentNamesMax } from "../limits.ts";
import { origins } from "../task/schema.ts";

const time = z.int().check(z.nonnegative());

const sandbox = {
  name: providerId(),
  createdAt: time,
};

/** The session's one sandbox. It is `creating` before the provider is asked, so that no sandbox exists unnamed. */
export const sandboxSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({
      state: z.literal("creating"),
      ...sandbox,
      /** Who creates it, and how long other processes wait for that. */
      by: ownId(),
      until: time,
      /** The snapshot it is created from, when the session moves with its files. */
      snapshotId: z.optional(providerId()),
    }),
    z.object({
      state: z.literal("ready"),
      ...sandbox,
      sessionId: providerId(),
      origin: z.enum(origins),
      startedAt: time,
      expiresAt: time,
      /** When its life was last extended. */
      extendedAt: time,
      /** Who extends or moves it, and how long other processes wait for that. */
      busy: z.optional(z.object({ by: ownId(), until: time })),
    }),
    z.object({ state: z.literal("releasing"), ...sandbox }),
  ]),
);

/**
 * The turn that holds the session. A lease is held while its task is active at that turn, so the write that ends the
 * turn also frees the session. `at` tells two holdings of the same turn apart for a process that takes over a dead
 * lease.
 */
export const leaseSchema = z.lazy(() =>
  z.object({ taskId: ownId(), turn: z.int().check(z.positive()), at: time }),
);

/** What was found in a sandbox: names and versions, no values. */
export const environmentSchema = z.lazy(() =>
  z.object({
    /** The provider session it was found in. */
    sandbox: providerId(),
    probedAt: time,
    /** The fast script's result. If it differs, the rest is outdated. */
    fingerprint: wordOf(64),
    versions: bounded(z.record(wordOf(16), textOf(200)), { maxItems: 16 }),
    agents: bounded(z.array(wordOf(16)), { maxItems: 16 }),
    variables: bounded(z.array(wordOf(environmentNameMaxLength)), { maxItems: environmentNamesMax }),
  }),
);

export const sessionSchema = z.lazy(() =>
  z.object({
    userId: userId(),
    key: sessionKey(),
    epoch: z.int().check(z.nonnegative()),
    sandbox: z.optional(sandboxSchema),
    lease: z.optional(leaseSchema),
    /** Why the session lost its sandbox, while it has none. */
    lost: z.optional(z.enum(["gone", "released"])),
    /** The files of the last sandbox, while the session moves and has no other sandbox yet. */
    snapshotId: z.optional(providerId()),
    environment: z.optional(environmentSchema),
    createdAt: time,
    lastUsedAt: time,
    /** Since when the session had been idle when it was last taken. */
    idleSince: z.optional(time),
    /** Not released as idle before this, because a user extended it. */
    keptUntil: z.optional(time),
    /** A command runs in the sandbox. It renews this before it expires. */
    usedUntil: z.optional(time),
    /** When the user last reset the conversation. */
    resetAt: z.optional(time),
    /** Deleted by its user. The item stays, so that no sandbox name is used twice. */
    deletedAt: z.optional(time),
    /** No turn holds it: it may be released, least recently used first. */
    isIdle: z.optional(z.boolean()),
    /** When the reaper looks at it; absent while it has no sandbox. */
    dueAt: z.optional(time),
    expiresAt: time,
  }),
);

export type Session = z.infer<typeof sessionSchema>;
export type Lease = z.infer<typeof leaseSchema>;
export type SessionSandbox = z.infer<typeof sandboxSchema>;
export type ReadySandbox = Extract<SessionSandbox, { state: "ready" }>;
export type Environment = z.infer<typeof environmentSchema>;
