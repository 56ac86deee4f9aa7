import * as z from "zod/mini";
import { providerId, sessionKey, userId } from "../bounds.ts";

const time = z.int().check(z.nonnegative());
const made = {
  name: providerId(),
  createdAt: time,
  expiresAt: time,
};

/**
 * A sandbox created ahead of demand. Once claimed it belongs to one session for good. The record stays, so the session
 * can be found from the sandbox.
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
 * The right to one sandbox, stored under its name before the create and deleted after the removal. So the slots also
 * list every sandbox that may exist, even if its creator died.
 */
export const slotSchema = z.lazy(() =>
  z.object({
    name: providerId(),
    at: time,
    /** The session's epoch when the slot was taken. A sandbox of an older epoch no longer belongs to the session. */
    epoch: z.optional(z.int().check(z.nonnegative())),
    userId: z.optional(userId()),
    sessionKey: z.optional(sessionKey()),
    pool: z.optional(z.enum(["warm", "base"])),
  }),
);

export type Slot = z.infer<typeof slotSchema>;
