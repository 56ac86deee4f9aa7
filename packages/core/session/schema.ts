import * as z from "zod/mini";
import { bounded, ownId, providerId, sessionKey, textOf, userId, wordOf } from "../bounds.ts";
import { environmentNameMaxLength, environmentNamesMax } from "../limits.ts";
import { origins } from "../task/schema.ts";

const time = z.int().check(z.nonnegative());

const sandbox = {
  name: providerId(),
  createdAt: time,
};

/** The session's one sandbox. It is `creating` from before the provider is asked, so that none exists unnamed. */
export const sandboxSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({
      state: z.literal("creating"),
      ...sandbox,
      /** Who makes it, and until when others that want the session wait. */
      by: ownId(),
      until: time,
      /** What it is made from, where the session moves with all it has. */
      snapshotId: z.optional(providerId()),
    }),
    z.object({
      state: z.literal("ready"),
      ...sandbox,
      sessionId: providerId(),
      origin: z.enum(origins),
      startedAt: time,
      expiresAt: time,
      /** When its expiry was last pushed out. */
      extendedAt: time,
      /** Who is extending or moving it, and until when others that want it wait. */
      busy: z.optional(z.object({ by: ownId(), until: time })),
    }),
    z.object({ state: z.literal("releasing"), ...sandbox }),
  ]),
);

/**
 * Who has the session. A lease is held as long as its task is at that turn and has not ended, so ending a turn
 * releases it by that same write; `at` makes each holding distinct for those who mean to take a dead one over.
 */
export const leaseSchema = z.lazy(() =>
  z.object({ taskId: ownId(), turn: z.int().check(z.positive()), at: time }),
);

/** What is in a sandbox, as it was found when it was last looked at: names and versions, no values. */
export const environmentSchema = z.lazy(() =>
  z.object({
    /** The provider session it was found in. */
    sandbox: providerId(),
    probedAt: time,
    /** What a light look finds, too: where it is another, the rest is not to be trusted. */
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
    /** What became of the sandbox it had, while it has none. */
    lost: z.optional(z.enum(["gone", "released"])),
    /** The files of its last sandbox, while it is on the move and has no other yet. */
    snapshotId: z.optional(providerId()),
    environment: z.optional(environmentSchema),
    createdAt: time,
    lastUsedAt: time,
    /** Since when nobody had used it when it was last taken. */
    idleSince: z.optional(time),
    /** It is not to be given up for idleness before this: someone asked. */
    keptUntil: z.optional(time),
    /** A command runs in its sandbox, which says so again before this is over. */
    usedUntil: z.optional(time),
    /** When its agent's conversation was begun afresh. */
    resetAt: z.optional(time),
    /** Deleted by its user; the item stays, so that no name of a sandbox comes twice. */
    deletedAt: z.optional(time),
    /** No turn has it: it may be given up, the least recently used first. */
    isIdle: z.optional(z.boolean()),
    /** When the reaper must look at it; absent while it has no sandbox. */
    dueAt: z.optional(time),
    expiresAt: time,
  }),
);

export type Session = z.infer<typeof sessionSchema>;
export type Lease = z.infer<typeof leaseSchema>;
export type SessionSandbox = z.infer<typeof sandboxSchema>;
export type ReadySandbox = Extract<SessionSandbox, { state: "ready" }>;
export type Environment = z.infer<typeof environmentSchema>;
