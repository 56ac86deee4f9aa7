import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { capacityRetryMs } from "../limits.ts";
import type { Store } from "../ports.ts";
import { decideTurnHold, isPast, turnValue } from "./decide.ts";
import type { Hold, HoldKind, Holds, UserLimits } from "./schema.ts";

type HoldDeps = Pick<Deps, "store" | "clock" | "metrics">;

const every = "all";
const queued = "queued";
/** How often a taker that lost against others of the same user tries again. */
const takeTries = 5;

/**
 * Counts a turn against its user's limits before anything else of it is written. The count and the list of what is
 * counted are one item, so concurrent starters cannot exceed the limit. A start that dies leaves a hold on a turn that
 * is never written; it stops counting after a grace period.
 */
export async function admitTurn(
  deps: HoldDeps,
  userId: string,
  { taskId, turn }: { taskId: string; turn: number },
  { maxConcurrentTasks, maxQueuedTasks }: UserLimits,
): Promise<void> {
  const hold = { value: turnValue(turn, deps.clock.now()), groups: [every, queued] };
  const full = await take(deps, userId, "turns", taskId, hold, {
    max: { [every]: maxConcurrentTasks, [queued]: maxQueuedTasks },
    cleanUp: dropEndedTurns,
  });
  if (full === undefined) return;
  const [code, detail] =
    full === every
      ? ([
          "task_limit",
          `You have ${maxConcurrentTasks} tasks that have not ended, which is your limit.`,
        ] as const)
      : (["queue_limit", `You have ${maxQueuedTasks} queued tasks, which is your limit.`] as const);
  deps.metrics.count("limit_refused", 1, { limit: code });
  throw new AppError(code, detail, { retryAfterMs: capacityRetryMs });
}

/** Runs what writes an admitted turn. If that fails, the turn is not counted any longer. */
export async function withAdmission<T>(
  deps: HoldDeps,
  { id: taskId, userId, turn }: { id: string; userId: string; turn: number },
  limits: UserLimits,
  write: () => Promise<T>,
): Promise<T> {
  await admitTurn(deps, userId, { taskId, turn }, limits);
  try {
    return await write();
  } catch (error) {
    // The write may have had its effect, and another request may have made the same turn: only the task can tell.
    const task =
      error instanceof AppError ? await deps.store.getTask(taskId).catch(() => undefined) : undefined;
    const isWritten = !(error instanceof AppError) || (task !== undefined && task.turn >= turn);
    if (!isWritten) await dismissTurn(deps, userId, { taskId, turn }).catch(() => {});
    throw error;
  }
}

/** Stops counting a turn that has ended or was never written. Without it, the next taker at the limit finds out. */
export async function dismissTurn(
  { store }: Pick<Deps, "store">,
  userId: string,
  { taskId, turn }: { taskId: string; turn: number },
): Promise<void> {
  const hold = (await store.getHolds(userId, "turns")).entries[taskId];
  if (hold?.value.startsWith(`${turn}.`))
    await store.changeHold(userId, "turns", taskId, hold, undefined, {});
}

/**
 * Counts a stream or a webhook for as long as it can last at most. Returns a function that ends the count, or the group
 * that is full.
 */
export async function takeLeaseHold(
  deps: Pick<HoldDeps, "store" | "clock">,
  userId: string,
  kind: Exclude<HoldKind, "turns">,
  { id, untilAt, max }: { id: string; untilAt: number; max: Readonly<Record<string, number>> },
): Promise<{ release: () => Promise<void> } | { full: string }> {
  const hold = { value: String(untilAt), groups: Object.keys(max) };
  const full = await take(deps, userId, kind, id, hold, { max, cleanUp: dropPast });
  if (full !== undefined) return { full };
  return {
    // Best effort: a hold that stays is dropped once its time is over.
    release: async () => {
      await deps.store.changeHold(userId, kind, id, hold, undefined, {}).catch(() => {});
    },
  };
}

interface Taking {
  max: Readonly<Record<string, number>>;
  /** Drops holds that no longer count. True if it dropped one. */
  cleanUp: (
    deps: Pick<HoldDeps, "store" | "clock">,
    userId: string,
    kind: HoldKind,
    holds: Holds,
  ) => Promise<boolean>;
}

/** The group that is full, or undefined if the hold was taken. */
async function take(
  deps: Pick<HoldDeps, "store" | "clock">,
  userId: string,
  kind: HoldKind,
  id: string,
  hold: Hold,
  { max, cleanUp }: Taking,
): Promise<string | undefined> {
  let from: Hold | undefined;
  for (let tries = 0; ; tries++) {
    const outcome = await deps.store.changeHold(userId, kind, id, from, hold, max);
    if (outcome.won) return undefined;
    const holds = outcome.item ?? { entries: {}, counts: {} };
    // An earlier turn of the same task, or an earlier try of the same start.
    const mine = holds.entries[id];
    const hasMoved = mine?.value !== from?.value || mine?.groups.length !== from?.groups.length;
    from = mine;
    const full = hold.groups.find(
      (group) => !mine?.groups.includes(group) && (holds.counts[group] ?? 0) >= (max[group] ?? 0),
    );
    if (full !== undefined && !(await cleanUp(deps, userId, kind, holds))) return full;
    if (full === undefined && !hasMoved && tries >= takeTries) return hold.groups[0];
  }
}

async function dropEndedTurns(
  { store, clock }: Pick<HoldDeps, "store" | "clock">,
  userId: string,
  kind: HoldKind,
  { entries }: Holds,
): Promise<boolean> {
  const drops = await Promise.all(
    Object.entries(entries).map(async ([taskId, hold]) => {
      const verdict = decideTurnHold(hold.value, await store.getTask(taskId), clock.now());
      if (verdict === "ended") return await drop(store, userId, kind, taskId, hold);
      if (verdict === "queued" || !hold.groups.includes(queued)) return false;
      const started = { ...hold, groups: hold.groups.filter((group) => group !== queued) };
      return (await store.changeHold(userId, kind, taskId, hold, started, {})).won;
    }),
  );
  return drops.includes(true);
}

async function dropPast(
  { store, clock }: Pick<HoldDeps, "store" | "clock">,
  userId: string,
  kind: HoldKind,
  { entries }: Holds,
): Promise<boolean> {
  const past = Object.entries(entries).filter(([, { value }]) => isPast(value, clock.now()));
  const drops = await Promise.all(past.map(([id, hold]) => drop(store, userId, kind, id, hold)));
  return drops.includes(true);
}

async function drop(store: Store, userId: string, kind: HoldKind, id: string, hold: Hold): Promise<boolean> {
  return (await store.changeHold(userId, kind, id, hold, undefined, {})).won;
}
