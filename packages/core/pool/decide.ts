import { longestCreateMs, warmLifeMs } from "../limits.ts";
import type { ReadyWarmSandbox, UnclaimedWarmSandbox } from "./schema.ts";

/** Those that may be claimed for so long, the oldest first: it has the least life left to lose. */
export function claimable(warm: readonly UnclaimedWarmSandbox[], untilAt: number): ReadyWarmSandbox[] {
  const fit = warm
    .filter((sandbox) => sandbox.state === "ready")
    .filter(({ expiresAt }) => expiresAt >= untilAt);
  return fit.sort((a, b) => a.createdAt - b.createdAt);
}

/** How many to make: what is being made counts, what is nearly over does not, and the cap is kept. */
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

/** Whether nobody can want it any more: never finished, or its life is over before it was claimed. */
export function isSpent(sandbox: UnclaimedWarmSandbox, now: number): boolean {
  switch (sandbox.state) {
    case "creating":
      return now - sandbox.createdAt >= longestCreateMs;
    case "ready":
      return sandbox.expiresAt - now <= warmLifeMs;
  }
}
