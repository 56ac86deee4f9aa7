import * as z from "zod/mini";

const time = z.int().check(z.nonnegative());
const made = {
  name: z.string(),
  createdAt: time,
  expiresAt: time,
  /** The slot it counts against the cap with. */
  slot: z.optional(z.int().check(z.nonnegative())),
};

/**
 * A sandbox that was made ahead, for nobody. Once claimed it is one session's for ever: the record stays, so that
 * whoever finds the sandbox can find the session too.
 */
export const warmSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({ state: z.literal("creating"), ...made }),
    z.object({ state: z.literal("ready"), ...made, sessionId: z.string() }),
    z.object({
      state: z.literal("claimed"),
      ...made,
      claimedAt: time,
      userId: z.string(),
      sessionKey: z.string(),
    }),
  ]),
);

export type WarmSandbox = z.infer<typeof warmSchema>;
export type UnclaimedWarmSandbox = Exclude<WarmSandbox, { state: "claimed" }>;
export const isUnclaimed = (warm: WarmSandbox): warm is UnclaimedWarmSandbox => warm.state !== "claimed";

export type ReadyWarmSandbox = Extract<WarmSandbox, { state: "ready" }>;

/** The right to one sandbox. There are as many numbers as there may be sandboxes. */
export const slotSchema = z.lazy(() =>
  z.object({
    number: z.int().check(z.nonnegative()),
    name: z.string(),
    at: time,
    userId: z.optional(z.string()),
    sessionKey: z.optional(z.string()),
    pool: z.optional(z.enum(["warm", "base"])),
    /** Whose it was before, and who may still be there, though nothing names them: they go before it is anyone else's. */
    over: z.optional(z.array(z.string())),
  }),
);

export type Slot = z.infer<typeof slotSchema>;
