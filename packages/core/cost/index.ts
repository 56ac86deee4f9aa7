import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { usageRetentionMs } from "../limits.ts";
import { costOf, dayOf, totalOf } from "./decide.ts";
import { prices } from "./prices.ts";
import type { Costs } from "./schema.ts";

const dayMs = 24 * 60 * 60_000;
const daysMax = 31;

export async function addUsage(
  { store, clock, metrics }: Pick<Deps, "store" | "clock" | "metrics">,
  userId: string,
  counters: Readonly<Record<string, number>>,
): Promise<void> {
  const now = clock.now();
  const day = dayOf(now);
  const sum = await store.addUsage(day, userId, counters, now + usageRetentionMs);
  const { used } = costOf({ day, userId, counters });
  metrics.count("cost_microusd", used.usd * 1e6);
  if (!counters.turns) return;
  metrics.count("vcpu_ms", used.vcpuSeconds * 1000);
  // The sum moves by one write, so exactly one of a user's turns of a day is the first.
  if (sum.counters.turns === counters.turns) metrics.count("user_active");
}

/** What was used, day by day: a user's own, or for an admin everyone's. */
export async function readCosts(
  { store, clock }: Deps,
  caller: { userId: string; admin: boolean },
  query: { from?: string | undefined; to?: string | undefined; userId?: string | undefined },
): Promise<Costs> {
  const to = query.to ?? dayOf(clock.now());
  const from = query.from ?? dayOf(Date.parse(to) - 6 * dayMs);
  const userId = caller.admin ? query.userId : caller.userId;
  if (query.userId !== undefined && query.userId !== caller.userId && !caller.admin)
    throw new AppError("forbidden", "Another user's costs are for admins.");
  const days = daysBetween(from, to);
  const read = async (day: string) =>
    userId === undefined ? await store.listUsage(day) : [(await store.getUsage(day, userId)) ?? []].flat();
  const items = (await Promise.all(days.map(read))).flat().map(costOf);
  const [first = from] = days;
  const current = prices.filter(
    (price, at) => price.from <= to && !(prices[at + 1] && (prices[at + 1]?.from ?? "") <= first),
  );
  return { from, to, items, total: totalOf(items), prices: [...current] };
}

/** Counted before anything is made of them: two dates may be thousands of years apart. */
function daysBetween(from: string, to: string): string[] {
  const start = Date.parse(from);
  const count = (Date.parse(to) - start) / dayMs + 1;
  if (count > daysMax) throw new AppError("invalid_request", `At most ${daysMax} days at once.`);
  if (!(count >= 1)) throw new AppError("invalid_request", "`from` is after `to`.");
  return Array.from({ length: count }, (_, day) => dayOf(start + day * dayMs));
}
