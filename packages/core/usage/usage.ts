import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { measuresRetentionMs, usageRetentionMs } from "../limits.ts";
import { countersOf, type Sample } from "../metrics/measures.ts";
import { hourOf } from "../metrics/schema.ts";
import { costOf, dayOf, totalOf } from "./decide.ts";
import { prices } from "./prices.ts";
import type { Costs, Counters } from "./schema.ts";

const dayMs = 24 * 60 * 60_000;
const daysMax = 31;

type CountingDeps = Pick<Deps, "store" | "clock" | "metrics">;

/**
 * Adds usage and success metrics to the user's sums, with one write. Returns the samples for `addMeasures`, which adds
 * them to the sums over all users.
 */
export async function addUsage(
  { store, clock, metrics }: CountingDeps,
  userId: string,
  counters: Counters,
  samples: readonly Sample[] = [],
): Promise<Sample[]> {
  const now = clock.now();
  const { day, hour } = hourOf(now);
  const all = [...samples, ...usageSamples(day, counters)];
  const measures = { hour, counters: countersOf(all) };
  const sum = await store.addUsage(day, userId, counters, now + usageRetentionMs, measures);
  const { used } = costOf({ day, userId, counters });
  if (isUsed(counters)) metrics.count("cost_microusd", used.usd * 1e6);
  if (counters.turns) metrics.count("vcpu_ms", used.vcpuSeconds * 1000);
  // One write moves the sum, so exactly one of a user's turns is the first of the day.
  if (!counters.turns || sum.counters.turns !== counters.turns) return all;
  metrics.count("user_active");
  return [...all, ["user_active", 1]];
}

/** Adds to the success metrics over all users. `spread` is any id, so that writers do not share an item. */
export async function addMeasures(
  { store, clock }: Pick<Deps, "store" | "clock">,
  samples: readonly Sample[],
  spread: string,
): Promise<void> {
  const now = clock.now();
  const { day, hour } = hourOf(now);
  await store.addMeasures(day, { hour, counters: countersOf(samples) }, spread, now + measuresRetentionMs);
}

/** What usage means in money and vCPU time. */
export function usageSamples(day: string, counters: Counters): ["cost_microusd" | "vcpu_ms", number][] {
  if (!isUsed(counters)) return [];
  const { used } = costOf({ day, userId: "", counters });
  return [
    ["cost_microusd", used.usd * 1e6],
    ...(counters.turns ? ([["vcpu_ms", used.vcpuSeconds * 1000]] satisfies [["vcpu_ms", number]]) : []),
  ];
}

function isUsed(counters: Counters): boolean {
  return Object.keys(counters).length > 0;
}

/** An incident outside the end of a turn, for example an unexpected push. Its user is unknown if its task is. */
export async function addIncident(
  deps: CountingDeps,
  userId: string | undefined,
  sample: Sample,
  spread: string,
): Promise<void> {
  if (userId !== undefined) await addUsage(deps, userId, {}, [sample]);
  await addMeasures(deps, [sample], spread);
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
