import * as z from "zod/mini";
import { keepBaseSnapshotFresh } from "../base-snapshot/build.ts";
import { countOf } from "../capacity/capacity.ts";
import type { Slot } from "../capacity/schema.ts";
import { auditSlots, evictOverCap, isNamed } from "../capacity/slots.ts";
import { removeSpentWarm, requestWarm } from "../capacity/warm.ts";
import type { EndingDeps } from "../deps.ts";
import { app, longestCreateMs } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import type { ListedSandbox } from "../ports.ts";
import { reapSession } from "../session/reap.ts";
import { decideDue, reapAgain } from "../task/decide.ts";
import { when } from "../task/guards.ts";
import type { Task } from "../task/schema.ts";
import { act } from "../task/timer.ts";
import { interleave } from "./fair.ts";

const atOnce = 8;
const perPass = 200;
/** Enough to choose fairly from, even if one user has more due items than a pass can handle. */
const listedPerPass = 1000;
/** No item may delay the others for longer than this. */
const itemMaxMs = 15_000;

export const reapReportSchema = z
  .lazy(() =>
    z.object({
      dryRun: z.boolean(),
      /** Due tasks by what was done. */
      tasks: z.record(z.string(), z.int()),
      /** Due sessions by what was done. */
      sessions: z.record(z.string(), z.int()),
      /** Sandboxes of this stage that no record names. */
      orphans: z.array(z.string()),
      /** Idle sessions released because the pool was over its cap. */
      evicted: z.int(),
      /** Warm sandboxes requested from workers. */
      warmed: z.int(),
      /** What failed and is retried in a later pass. */
      failures: z.array(z.string()),
      /** False if time ran out: the next pass goes on. */
      complete: z.boolean(),
      durationMs: z.int(),
    }),
  )
  .register(z.globalRegistry, { id: "ReapReport" });

export type ReapReport = z.infer<typeof reapReportSchema>;

/** A part of a pass, and its share of the remaining time. A part that fails does not stop the next. */
interface Part {
  share: number;
  run: (pass: Pass) => Promise<void>;
}

interface Pass {
  deps: EndingDeps;
  report: ReapReport;
  dryRun: boolean;
  /** When this part's time ends. */
  until: number;
}

const parts: readonly Part[] = [
  { share: 0.4, run: reapTasks },
  { share: 0.4, run: reapSessions },
  { share: 0.5, run: reapSandboxes },
  { share: 0.3, run: resumeDeletions },
  { share: 1, run: reapPool },
];

/**
 * The safety net. Finds what was lost, repeated or killed from both sides: what the table says is due, and what the
 * provider runs and the table does not know. Concurrent passes are safe.
 */
export async function reap(
  deps: EndingDeps,
  options: { dryRun: boolean; maxMs: number },
): Promise<ReapReport> {
  const { clock } = deps;
  const startedAt = clock.now();
  const report: ReapReport = {
    dryRun: options.dryRun,
    tasks: {},
    sessions: {},
    orphans: [],
    evicted: 0,
    warmed: 0,
    failures: [],
    complete: true,
    durationMs: 0,
  };
  for (const { share, run } of parts) {
    const shareMs = (startedAt + options.maxMs - clock.now()) * share;
    const pass = { deps, report, dryRun: options.dryRun, until: clock.now() + shareMs };
    await deps.limitTime(shareMs, () => run(pass)).catch((error: unknown) => fail(report, error));
  }
  report.durationMs = clock.now() - startedAt;
  if (!options.dryRun) countPass(deps, report);
  return report;
}

function countPass({ metrics }: EndingDeps, { durationMs, complete, failures }: ReapReport): void {
  metrics.count("reap_ms", durationMs);
  if (!complete) metrics.count("reap_incomplete");
  if (failures.length > 0) metrics.count("reap_failures", failures.length);
}

async function reapTasks(pass: Pass): Promise<void> {
  const { deps } = pass;
  const due = await deps.store.listDueTasks(deps.clock.now(), listedPerPass);
  // The alarm needs a value from every pass, even if nothing is due.
  if (due.length === 0 && !pass.dryRun) deps.metrics.count("reap_overdue_ms", 0);
  await each(pass, interleave(due, perPass), async ({ id }) => {
    // The index may be stale; the item decides.
    const task = await deps.store.getTask(id);
    if (task?.dueAt !== undefined && task.dueAt <= deps.clock.now()) await reapTask(pass, task, task.dueAt);
    // It was deleted or has expired, and what belongs to it is still there. For a stale entry this does nothing.
    if (!task) {
      count(pass.report.tasks, "purge");
      if (!pass.dryRun) await deps.store.purgeTask(id);
    }
  });
}

/** Moves the due time before acting, so that an item that keeps failing does not block the others. */
async function reapTask({ deps, report, dryRun }: Pass, task: Task, dueAt: number): Promise<void> {
  const { store, clock, metrics } = deps;
  const now = clock.now();
  const action = decideDue(task, now);
  count(report.tasks, action.kind);
  if (dryRun) return;
  metrics.count("reap_overdue_ms", Math.max(now - dueAt, 0));
  const set = action.kind === "again" ? { dueAt: now + action.inMs } : reapAgain(task, now);
  const moved = await store.changeTask(task.id, when.dueAsRead(task.turn, dueAt), { set });
  if (moved.won) await act(deps, moved.item, action, "reaper");
}

async function reapSessions(pass: Pass): Promise<void> {
  const { deps, report, dryRun } = pass;
  const due = await deps.store.listDueSessions(deps.clock.now(), listedPerPass);
  await each(pass, interleave(due, perPass), async (where) =>
    count(report.sessions, await reapSession(deps, where, { dryRun })),
  );
}

/** Asks a worker to go on with deletions of users whose message may be lost. Another message does no harm. */
async function resumeDeletions({ deps, dryRun }: Pass): Promise<void> {
  for (const { userId, at } of await deps.store.listDeletions())
    if (!dryRun && deps.clock.now() - at >= deletionLateMs)
      await deps.work.send({ kind: "forget", userId }, 0, userId);
}

const deletionLateMs = 60_000;

/** How many pages of the provider's list one pass reads, so that its cost does not grow with the pool. */
const pagesPerPass = 2;

/** Deletes sandboxes that run but are in no record. A long list takes several passes. */
async function reapSandboxes(pass: Pass): Promise<void> {
  const { store, provider, config } = pass.deps;
  const known = new Map((await store.listSlots()).map((slot) => [slot.name, slot]));
  const from = await store.getReapCursor();
  let next: string | undefined;
  try {
    for (let pages = 0; pages < pagesPerPass && (pages === 0 || next !== undefined); pages++) {
      const page = await provider.list({ stage: config.stage }, pages === 0 ? from : next);
      const ours = page.items.filter(({ tags }) => tags.app === app && tags.stage === config.stage);
      await each(pass, ours, (sandbox) => lookAtSandbox(pass, sandbox, known.get(sandbox.name)));
      next = page.next;
    }
  } finally {
    // Also after a failure: a cursor that the provider no longer accepts must not fail every later pass.
    if (!pass.dryRun && next !== from) await store.putReapCursor(next);
  }
}

async function lookAtSandbox(
  { deps, report, dryRun }: Pass,
  { name, createdAt, tags }: ListedSandbox,
  slot: Slot | undefined,
): Promise<void> {
  // The audit handles sandboxes with a slot. One without a slot is in an older record, or is an orphan.
  if (slot || deps.clock.now() - createdAt < longestCreateMs) return;
  const { user: userId, session: sessionKey } = tags;
  const owner: Pick<Slot, "userId" | "sessionKey" | "pool"> =
    userId && sessionKey ? { userId, sessionKey } : { pool: tags.pool === "base" ? "base" : "warm" };
  if (await isNamed(deps, { name, ...owner })) {
    if (!dryRun) await deps.store.putSlot({ name, at: createdAt, ...owner });
    return;
  }
  report.orphans.push(name);
  if (dryRun) return;
  deps.metrics.count("orphan_found");
  await deps.provider.remove(name);
  deps.metrics.count("orphan_deleted");
}

/** Cuts the pool to its cap or refills it. The base snapshot comes before the sandboxes created from it. */
async function reapPool({ deps, report, dryRun, until }: Pass): Promise<void> {
  const slots = await deps.store.listSlots();
  const hasTime = () => deps.clock.now() < until;
  report.evicted = await evictOverCap(deps, slots, { dryRun, hasTime });
  report.orphans.push(...(await auditSlots(deps, slots, { dryRun })));
  if (dryRun) return;
  deps.metrics.count("pool_sandboxes", countOf(slots));
  deps.metrics.count("pool_users", new Set(slots.flatMap(({ userId = [] }) => userId)).size);
  const steps = [
    () => keepBaseSnapshotFresh(deps),
    () => removeSpentWarm(deps),
    async () => {
      report.warmed = await requestWarm(deps, slots);
    },
  ];
  for (const step of steps) await step().catch((error: unknown) => fail(report, error));
}

/** An item that fails or hangs does not keep the others from being handled. */
async function each<T>(pass: Pass, items: readonly T[], look: (item: T) => Promise<void>): Promise<void> {
  const { deps, report, until } = pass;
  const left = await inParallel(
    items,
    atOnce,
    () => deps.clock.now() < until,
    async (item) => {
      const maxMs = Math.min(until - deps.clock.now(), itemMaxMs);
      await deps.limitTime(maxMs, () => look(item)).catch((error: unknown) => fail(report, error));
    },
  );
  if (left > 0) report.complete = false;
}

function count(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

function fail(report: ReapReport, error: unknown): void {
  report.failures.push(error instanceof Error ? error.message : "unknown");
}
