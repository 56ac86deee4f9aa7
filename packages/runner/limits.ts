import type { Activity } from "./protocol.ts";

export interface LimitState {
  /** Since the launch. */
  nowMs: number;
  /** Since when nothing was read from the agent. */
  quietSinceMs: number;
  /** Its pipes are not read because output cannot be delivered: then silence says nothing. */
  paused: boolean;
  activity: Activity;
}

export type LimitDecision = { end: "deadline" | "inactivity" } | { checkInMs: number };

export function decideLimit(
  { nowMs, quietSinceMs, paused, activity }: LimitState,
  { maxDurationMs, inactivityMs }: { maxDurationMs: number; inactivityMs: number },
): LimitDecision {
  const leftMs = maxDurationMs - nowMs;
  if (leftMs <= 0) return { end: "deadline" };
  const mayBeSilent = paused || activity !== "none";
  const quietLeftMs = mayBeSilent ? inactivityMs : quietSinceMs + inactivityMs - nowMs;
  if (quietLeftMs <= 0) return { end: "inactivity" };
  return { checkInMs: Math.min(leftMs, quietLeftMs) };
}
