import * as z from "zod/mini";
import { providerId, sessionKey, userId } from "../bounds.ts";

const time = z.int().check(z.nonnegative());
const made = {
  name: providerId(),
  createdAt: time,
  expiresAt: time,
};

/**
 * A sandbox that was made ahead, for nobody yet. Once claimed it is one session's for ever: the record stays, so that the
 * session can be found from the sandbox.
 */
export const warmSchema = z.lazy(() =>
  z.discriminatedUnion("state", [
    z.object({ state: z.literal("creating"), ...made }),
    z.object({ state: z.literal("ready"), ...made, sessionId: providerId() }),
    z.object({
      state: z.literal("claimed"),
      ...made,
      claimedAt: time,
      userId: userId(),
      sessionKey: sessionKey(),
    }),
  ]),
);

export type WarmSandbox = z.infer<typeof warmSchema>;
export type UnclaimedWarmSandbox = Exclude<WarmSandbox, { state: "claimed" }>;
export const isUnclaimed = (warm: WarmSandbox): warm is UnclaimedWarmSandbox => warm.state !== "claimed";

export type ReadyWarmSandbox = Extract<WarmSandbox, { state: "ready" }>;

/**
 * The right to one sandbox, by its name: written before the sandbox is asked for, deleted after it is gone. So the slots
 * are also the list of all that may exist, whoever died while making or removing one.
 */
export const slotSchema = z.lazy(() =>
  z.object({
    name: providerId(),
    at: time,
    /** Of the session, when the slot was taken for it: an older one's sandbox is no longer the session's. */
    epoch: z.optional(z.int().check(z.nonnegative())),
    userId: z.optional(userId()),
    sessionKey: z.optional(sessionKey()),
    pool: z.optional(z.enum(["warm", "base"])),
  }),
);

export type Slot = z.infer<typeof slotSchema>;
