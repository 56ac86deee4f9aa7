import { longestCreateMs, warmLifeMs } from "../limits.ts";
import type { ReadyWarmSandbox, UnclaimedWarmSandbox } from "./schema.ts";

/** Warm sandboxes that live long enough, oldest first: they have the least life left to lose. */
export function claimable(warm: readonly UnclaimedWarmSandbox[], untilAt: number): ReadyWarmSandbox[] {
  const fit = warm
    .filter((sandbox) => sandbox.state === "ready")
    .filter(({ expiresAt }) => expiresAt >= untilAt);
  return fit.sort((a, b) => a.createdAt - b.createdAt);
}

/** How many warm sandboxes to create. Ones being created count, ones about to expire do not, and the cap holds. */
export function decideRefill(
  warm: readonly UnclaimedWarmSandbox[],
  { target, room, atMost }: { target: number; room: number; atMost: number },
  now: number,
): number {
  const usable = warm.filter((sandbox) => {
    if (sandbox.state === "creating") return now - sandbox.createdAt < longestCreateMs;
    return sandbox.state === "ready" && sandbox.expiresAt - now > warmLifeMs;
  });
  return Math.max(Math.min(target - usable.length, room, atMost), 0);
}

/** Whether no session can use it any more: it was never finished, or it expires soon. */
export function isSpent(sandbox: UnclaimedWarmSandbox, now: number): boolean {
  switch (sandbox.state) {
    case "creating":
      return now - sandbox.createdAt >= longestCreateMs;
    case "ready":
      return sandbox.expiresAt - now <= warmLifeMs;
  }
}
