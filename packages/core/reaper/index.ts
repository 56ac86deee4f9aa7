import { z } from "zod";
import type { EndingDeps } from "../deps.ts";
import { app, longestCreateMs } from "../limits.ts";
import type { ListedSandbox } from "../ports.ts";
import { reapSession } from "../session/reap.ts";
import { decideDue } from "../task/decide.ts";
import { act } from "../task/timer.ts";
import { inParallel } from "./parallel.ts";

const atOnce = 8;
const perSweep = 200;

export const reapReportSchema = z
  .object({
    dryRun: z.boolean(),
    /** Due tasks by what was done to them. */
    tasks: z.record(z.string(), z.int()),
    /** Due sessions by what became of their sandboxes. */
    sessions: z.record(z.string(), z.int()),
    /** Sandboxes of this stage that no session names. */
    orphans: z.array(z.string()),
    /** What could not be done now, and is tried again next time. */
    failures: z.array(z.string()),
    /** False where time ran out: the next sweep goes on. */
    complete: z.boolean(),
    durationMs: z.int(),
  })
  .meta({ id: "ReapReport" });

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
    failures: [],
    complete: true,
    durationMs: 0,
  };
  const sweep = { deps, report, dryRun: options.dryRun, until: startedAt + options.maxMs };
  await reapTasks(sweep);
  await reapSessions(sweep);
  await reapOrphans(sweep);
  report.durationMs = clock.now() - startedAt;
  return report;
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

/** Whatever runs under our tag and is named by no session was made by someone who died before he could say so. */
async function reapOrphans(sweep: Sweep): Promise<void> {
  const { deps, report, dryRun } = sweep;
  let cursor: string | undefined;
  do {
    const page = await deps.provider.list({ stage: deps.config.stage }, cursor);
    const ours = page.items.filter(({ tags }) => tags.app === app && tags.stage === deps.config.stage);
    await each(sweep, ours, async (sandbox) => {
      if (await isNamed(deps, sandbox)) return;
      report.orphans.push(sandbox.name);
      if (dryRun) return;
      await deps.provider.remove(sandbox.name);
      deps.metrics.count("orphan_deleted");
    });
    cursor = page.next;
  } while (cursor && deps.clock.now() < sweep.until);
  if (cursor) report.complete = false;
}

async function isNamed(
  { store, clock }: EndingDeps,
  { name, createdAt, tags }: ListedSandbox,
): Promise<boolean> {
  if (clock.now() - createdAt < longestCreateMs) return true;
  const session = await store.getSession(tags.user ?? "", tags.session ?? "");
  return session?.sandbox?.name === name;
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
        report.failures.push(error instanceof Error ? error.message : "unknown");
      }
    },
  );
  if (left > 0) report.complete = false;
}

function count(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
