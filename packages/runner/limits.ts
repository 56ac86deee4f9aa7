import type { Activity } from "./protocol.ts";

export interface LimitState {
  /** Since the launch. */
  nowMs: number;
  /** Since when nothing was read from the agent. */
  quietSinceMs: number;
  /** When Concierge last took output. */
  deliveredMs: number;
  /** Its pipes are not read because output cannot be delivered: then silence says nothing of the agent. */
  paused: boolean;
  activity: Activity;
}

export type LimitDecision = { end: "deadline" | "inactivity" } | { checkInMs: number };

export interface TurnLimits {
  maxDurationMs: number;
  inactivityMs: number;
  activityCapMs: number;
}

/**
 * An agent that waits for its model or a tool may be silent for `activityCapMs`: a call that hangs ends there. So may
 * one whose pipes are not read, counted from the last delivery: it cannot print, but it must not wait for ever either.
 * The cap never makes the silence that is allowed shorter than `inactivityMs`.
 */
export function decideLimit(
  { nowMs, quietSinceMs, deliveredMs, paused, activity }: LimitState,
  { maxDurationMs, inactivityMs, activityCapMs }: TurnLimits,
): LimitDecision {
  const leftMs = maxDurationMs - nowMs;
  if (leftMs <= 0) return { end: "deadline" };
  const mayBeSilent = paused || activity !== "none";
  const sinceMs = paused ? Math.max(quietSinceMs, deliveredMs) : quietSinceMs;
  const quietLeftMs = sinceMs + (mayBeSilent ? Math.max(inactivityMs, activityCapMs) : inactivityMs) - nowMs;
  if (quietLeftMs <= 0) return { end: "inactivity" };
  // The agent may become idle meanwhile, and then has only `inactivityMs`.
  return { checkInMs: Math.min(leftMs, quietLeftMs, inactivityMs) };
}
