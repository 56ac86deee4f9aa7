import { leaseGraceMs } from "../limits.ts";
import { isTerminal, type Task } from "../task/schema.ts";

const dayMs = 24 * 60 * 60_000;
const minuteMs = 60_000;

/** A turn's hold: which turn, and since when. */
export function turnValue(turn: number, at: number): string {
  return `${turn}.${at}`;
}

export type TurnVerdict = "active" | "queued" | "ended";

/**
 * Whether the turn behind a hold still counts. As for a lease: a turn that is not written yet counts for a grace period,
 * because its starter may be about to write it.
 */
export function decideTurnHold(value: string, task: Task | undefined, now: number): TurnVerdict {
  const [turn = 0, at = 0] = value.split(".").map(Number);
  if (!task || task.turn < turn) return now - at < leaseGraceMs ? "queued" : "ended";
  if (task.turn > turn || isTerminal(task.state.status)) return "ended";
  return task.state.status === "queued" ? "queued" : "active";
}

/** A lease's hold counts until its time. */
export function isPast(value: string, now: number): boolean {
  return Number(value) <= now;
}

export function untilMidnightMs(now: number): number {
  return dayMs - (now % dayMs);
}

export function minuteOf(now: number): number {
  return Math.floor(now / minuteMs);
}

export function untilNextMinuteMs(now: number): number {
  return minuteMs - (now % minuteMs);
}
