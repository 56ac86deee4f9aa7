import { z } from "zod";

const time = z.int().nonnegative();

const sandbox = { name: z.string(), createdAt: time };

/** The session's one sandbox. It is `creating` from before the provider is asked, so that none exists unnamed. */
export const sandboxSchema = z.discriminatedUnion("state", [
  z.strictObject({ state: z.literal("creating"), ...sandbox }),
  z.strictObject({ state: z.literal("ready"), ...sandbox, sessionId: z.string(), expiresAt: time }),
  z.strictObject({ state: z.literal("releasing"), ...sandbox }),
]);

/**
 * Who has the session. A lease is held as long as its task is at that turn and has not ended, so ending a turn
 * releases it by that same write; `at` makes each holding distinct for those who mean to take a dead one over.
 */
export const leaseSchema = z.strictObject({ taskId: z.string(), turn: z.int().positive(), at: time });

export const sessionSchema = z.strictObject({
  userId: z.string(),
  key: z.string(),
  epoch: z.int().nonnegative(),
  sandbox: sandboxSchema.optional(),
  lease: leaseSchema.optional(),
  /** Names given up while their create may still have been under way: looked for again until it can not be any more. */
  tombstones: z.array(z.strictObject({ name: z.string(), until: time })).optional(),
  createdAt: time,
  lastUsedAt: time,
  dueAt: time.optional(),
  expiresAt: time,
});

export type Session = z.infer<typeof sessionSchema>;
export type Lease = z.infer<typeof leaseSchema>;
export type SessionSandbox = z.infer<typeof sandboxSchema>;
