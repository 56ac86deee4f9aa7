import type { Activity } from "@concierge/protocol";

/** All times are milliseconds since the launch. */
export interface LimitState {
  nowMs: number;
  /** The agent's last output. */
  quietSinceMs: number;
  /** When Concierge last accepted output. */
  deliveredMs: number;
  /** The agent's pipes are not read, because output cannot be delivered. Its silence then means nothing. */
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
 * An idle agent may be silent for `inactivityMs`. An agent that waits for its model or a tool may be silent for
 * `activityCapMs`, or `inactivityMs` if that is longer. The same holds for a paused agent, counted from the last
 * delivery: it cannot print, but it must not wait forever either.
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
  // An agent that becomes idle in the meantime has only `inactivityMs`.
  return { checkInMs: Math.min(leftMs, quietLeftMs, inactivityMs) };
}
