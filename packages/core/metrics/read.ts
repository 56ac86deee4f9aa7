import { countOf } from "../capacity/capacity.ts";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { measured, sumOf } from "./measures.ts";
import { hourMs, hourOf, type MetricsView, type Window, windowHours } from "./schema.ts";

/** The success metrics of a window: the caller's own, or over all users for an admin. A bounded number of reads. */
export async function readMetrics(
  { store, clock }: Deps,
  caller: { userId: string; admin: boolean },
  query: { window: Window; userId?: string | undefined },
): Promise<MetricsView> {
  if (query.userId !== undefined && query.userId !== caller.userId && !caller.admin)
    throw new AppError("forbidden", "Only admins can read another user's metrics.");
  const userId = caller.admin ? query.userId : caller.userId;
  const now = clock.now();
  // Whole clock hours: the current one so far, and as many before it as the window has.
  const from = Math.floor(now / hourMs) * hourMs - windowHours[query.window] * hourMs;
  const hours = Array.from({ length: windowHours[query.window] + 1 }, (_, at) => hourOf(from + at * hourMs));
  const byDay = Map.groupBy(hours, ({ day }) => day);
  const read = [...byDay].map(async ([day, wanted]) => {
    const stored =
      userId === undefined ? await store.listMeasures(day) : await store.getMeasures(day, userId);
    return stored.filter(({ hour }) => wanted.some((one) => one.hour === hour));
  });
  const [slots, ...days] = await Promise.all([store.listSlots(), ...read]);
  const ofUser = slots.filter((slot) => userId === undefined || slot.userId === userId);
  const gauges = {
    pool_sandboxes: countOf(ofUser),
    pool_users: new Set(ofUser.flatMap((slot) => slot.userId ?? [])).size,
  };
  const counted = sumOf(days.flat().map((hour) => hour.counters));
  // One user is active once on each day with a turn.
  const activeDays = days.filter((hours) => hours.some((one) => one.counters.turn_ended)).length;
  const counters = userId === undefined ? counted : { ...counted, user_active: activeDays };
  return {
    window: query.window,
    from: new Date(from).toISOString(),
    to: new Date(now).toISOString(),
    items: measured(counters, gauges),
  };
}
