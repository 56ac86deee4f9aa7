import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { usageRetentionMs } from "../limits.ts";
import type { Task } from "../task/schema.ts";
import { dayOf } from "../usage/decide.ts";
import { untilMidnightMs } from "./decide.ts";
import { limitsOf } from "./limits.ts";
import type { UserLimits } from "./schema.ts";

type SpendDeps = Pick<Deps, "store" | "clock" | "config" | "metrics">;

const counter = "agentMicroUsd";

/** Throws `spend_limit` if the user's tasks have cost today's limit already. */
export async function requireSpendLeft(
  { store, clock, metrics }: SpendDeps,
  userId: string,
  { maxCostUsdPerDay }: UserLimits,
): Promise<void> {
  if (maxCostUsdPerDay === null) return;
  const now = clock.now();
  const spent = spentOf((await store.getUsage(dayOf(now), userId))?.counters);
  if (spent < maxCostUsdPerDay) return;
  metrics.count("limit_refused", 1, { limit: "spend_limit" });
  const detail = `Your tasks have cost ${spent.toFixed(2)} of ${maxCostUsdPerDay} USD today. The limit starts again at midnight UTC.`;
  throw new AppError("spend_limit", detail, { retryAfterMs: untilMidnightMs(now) });
}

/**
 * Adds what a report says beyond the one before to the user's day. True if the day's limit is exceeded. Written after
 * the report, so a crash in between loses one addition. Two reports at the same time may both add the same amount, which
 * errs on the side of the limit.
 */
export async function countSpend(deps: SpendDeps, before: Task | undefined, after: Task): Promise<boolean> {
  const costUsd = (after.usage?.costUsd ?? 0) - (before?.usage?.costUsd ?? 0);
  if (costUsd <= 0) return false;
  const { store, clock } = deps;
  const now = clock.now();
  const added = { [counter]: Math.round(costUsd * 1e6) };
  const { counters } = await store.addUsage(dayOf(now), after.userId, added, now + usageRetentionMs);
  const { maxCostUsdPerDay } = await limitsOf(deps, after.userId);
  return maxCostUsdPerDay !== null && spentOf(counters) > maxCostUsdPerDay;
}

/** What the agents of a user's day cost, in dollars. */
export function spentOf(counters: Readonly<Record<string, number>> | undefined): number {
  return (counters?.[counter] ?? 0) / 1e6;
}
