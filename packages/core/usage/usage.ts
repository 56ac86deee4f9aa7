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
  // One write moves the sum, so exactly one of a user's turns is the first of the day.
  if (sum.counters.turns === counters.turns) metrics.count("user_active");
}

/** Costs by day: the user's own, or everyone's for an admin. */
export async function readCosts(
  { store, clock }: Deps,
  caller: { userId: string; admin: boolean },
  query: { from?: string | undefined; to?: string | undefined; userId?: string | undefined },
): Promise<Costs> {
  const to = query.to ?? dayOf(clock.now());
  const from = query.from ?? dayOf(Date.parse(to) - 6 * dayMs);
  const userId = caller.admin ? query.userId : caller.userId;
  if (query.userId !== undefined && query.userId !== caller.userId && !caller.admin)
    throw new AppError("forbidden", "Only admins can read another user's costs.");
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

/** Checks the number of days before building the list: the dates may be thousands of years apart. */
function daysBetween(from: string, to: string): string[] {
  const start = Date.parse(from);
  const count = (Date.parse(to) - start) / dayMs + 1;
  if (count > daysMax) throw new AppError("invalid_request", `At most ${daysMax} days per request.`);
  if (!(count >= 1)) throw new AppError("invalid_request", "`from` is after `to`.");
  return Array.from({ length: count }, (_, day) => dayOf(start + day * dayMs));
}
