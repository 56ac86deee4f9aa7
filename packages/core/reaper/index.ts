import * as z from "zod/mini";
import { keepBaseFresh } from "../base/index.ts";
import type { EndingDeps } from "../deps.ts";
import { app, longestCreateMs } from "../limits.ts";
import { inParallel } from "../parallel.ts";
import { refill } from "../pool/index.ts";
import type { Slot } from "../pool/schema.ts";
import { freeStaleSlots } from "../pool/slots.ts";
import type { ListedSandbox } from "../ports.ts";
import { reapSession } from "../session/reap.ts";
import { decideDue } from "../task/decide.ts";
import { act } from "../task/timer.ts";

const atOnce = 8;
const perSweep = 200;

export const reapReportSchema = z
  .lazy(() =>
    z.object({
      dryRun: z.boolean(),
      /** Due tasks by what was done to them. */
      tasks: z.record(z.string(), z.int()),
      /** Due sessions by what became of their sandboxes. */
      sessions: z.record(z.string(), z.int()),
      /** Sandboxes of this stage that no session names. */
      orphans: z.array(z.string()),
      /** Idle sessions released because there were too many sandboxes. */
      evicted: z.int(),
      /** Sandboxes made ahead. */
      warmed: z.int(),
      /** What could not be done now, and is tried again next time. */
      failures: z.array(z.string()),
      /** False where time ran out: the next sweep goes on. */
      complete: z.boolean(),
      durationMs: z.int(),
    }),
  )
  .register(z.globalRegistry, { id: "ReapReport" });

export type ReapReport = z.infer<typeof reapReportSchema>;

/**
 * The last net: whatever was dropped, repeated or killed, the sweep finds it, from both sides: what the table knows
 * and is due, and what the provider runs and the table does not know. Two at once do no harm.
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
  const sweep = { deps, report, dryRun: options.dryRun, until: startedAt + options.maxMs };
  for (const part of [reapTasks, reapSessions, reapSandboxes, reapPool]) {
    await part(sweep).catch((error: unknown) => fail(report, error));
  }
  report.durationMs = clock.now() - startedAt;
  if (!options.dryRun) countSweep(deps, report);
  return report;
}

function countSweep({ metrics }: EndingDeps, { durationMs, complete, failures }: ReapReport): void {
  metrics.count("reap_ms", durationMs);
  if (!complete) metrics.count("reap_incomplete");
  if (failures.length > 0) metrics.count("reap_failures", failures.length);
}

interface Sweep {
  deps: EndingDeps;
  report: ReapReport;
  dryRun: boolean;
  until: number;
}

async function reapTasks(sweep: Sweep): Promise<void> {
  const { deps, report, dryRun } = sweep;
  const due = await deps.store.listDueTasks(deps.clock.now(), perSweep);
  await each(sweep, due, async (id) => {
    // The index may be behind: what is done is decided by the item itself.
    const task = await deps.store.getTask(id);
    const action = task && decideDue(task, deps.clock.now());
    if (!task || !action || action.kind === "nothing") return;
    count(report.tasks, action.kind);
    if (dryRun) return;
    deps.metrics.count("reap_overdue_ms", Math.max(deps.clock.now() - (task.dueAt ?? deps.clock.now()), 0));
    if (action.kind === "again") {
      await deps.store.changeTask(
        id,
        { turn: task.turn, status: [task.state.status] },
        { set: { dueAt: deps.clock.now() + action.inMs } },
      );
      return;
    }
    await act(deps, task, action, "reaper");
  });
}

async function reapSessions(sweep: Sweep): Promise<void> {
  const { deps, report, dryRun } = sweep;
  const due = await deps.store.listDueSessions(deps.clock.now(), perSweep);
  await each(sweep, due, async (where) =>
    count(report.sessions, await reapSession(deps, where, { dryRun, evict: false })),
  );
}

/** From the provider's side: what runs and nobody names goes; then the pool is cut to its cap, or filled up. */
async function reapSandboxes(sweep: Sweep): Promise<void> {
  const { deps, report, dryRun } = sweep;
  const slots = await deps.store.listSlots();
  if (!dryRun) countPool(deps, slots);
  let cursor: string | undefined;
  let live = 0;
  do {
    const page = await deps.provider.list({ stage: deps.config.stage }, cursor);
    const ours = page.items.filter(({ tags }) => tags.app === app && tags.stage === deps.config.stage);
    await each(sweep, ours, async (sandbox) => {
      if (!(await isNamed(deps, sandbox, slots))) await deleteOrphan(sweep, sandbox.name);
      else if (sandbox.isRunning) live += 1;
    });
    cursor = page.next;
  } while (cursor && deps.clock.now() < sweep.until);
  if (cursor) {
    report.complete = false;
    return;
  }
  const excess = live - deps.config.poolMax;
  if (excess > 0) await evict(sweep, excess);
  else if (!dryRun) report.warmed = await refill(deps);
}

function countPool({ metrics }: EndingDeps, slots: readonly Slot[]): void {
  const users = new Set(slots.flatMap(({ userId = [] }) => userId));
  metrics.count("pool_sandboxes", slots.length);
  metrics.count("pool_users", users.size);
}

async function reapPool({ deps, dryRun }: Sweep): Promise<void> {
  if (dryRun) return;
  await freeStaleSlots(deps);
  await keepBaseFresh(deps);
}

/** Made by someone who died before he could say so. */
async function deleteOrphan({ deps, report, dryRun }: Sweep, name: string): Promise<void> {
  report.orphans.push(name);
  if (dryRun) return;
  deps.metrics.count("orphan_found");
  await deps.provider.remove(name);
  deps.metrics.count("orphan_deleted");
}

/** Over the cap the least recently used goes first; never one under a lease. */
async function evict({ deps, report, dryRun, until }: Sweep, excess: number): Promise<void> {
  const sessions = await deps.store.listDueSessions(Number.MAX_SAFE_INTEGER, perSweep);
  for (const where of sessions) {
    if (report.evicted >= excess || deps.clock.now() >= until) return;
    const fate = await reapSession(deps, where, { dryRun, evict: true });
    if (fate === "released") report.evicted += 1;
  }
}

async function isNamed(
  { store, clock }: EndingDeps,
  { name, createdAt, tags }: ListedSandbox,
  slots: readonly Slot[],
): Promise<boolean> {
  if (clock.now() - createdAt < longestCreateMs) return true;
  if (tags.pool === "base") {
    const base = await store.getBase();
    return base?.state === "building" && base.name === name && base.until > clock.now();
  }
  const warm = tags.pool === "warm" ? await store.getWarm(name) : undefined;
  if (warm && warm.state !== "claimed") return true;
  // Its session may be about to have it.
  if (warm && clock.now() - warm.claimedAt < longestCreateMs) return true;
  // One that was made ahead may outlive its record; its slot says whose it is for as long as it is anybody's.
  const slot = slots.find((taken) => taken.name === name);
  const { userId = tags.user ?? "", sessionKey: key = tags.session ?? "" } = warm ?? slot ?? {};
  return (await store.getSession(userId, key))?.sandbox?.name === name;
}

/** One that fails does not keep the others from being looked after. */
async function each<T>(sweep: Sweep, items: readonly T[], look: (item: T) => Promise<void>): Promise<void> {
  const { deps, report, until } = sweep;
  const left = await inParallel(
    items,
    atOnce,
    () => deps.clock.now() < until,
    async (item) => {
      try {
        await look(item);
      } catch (error) {
        fail(report, error);
      }
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
