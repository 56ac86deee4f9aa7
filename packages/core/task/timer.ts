import { usageOf } from "../cost/decide.ts";
import { countUsage } from "../cost/index.ts";
import type { EndingDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { countLateness } from "../metrics/count.ts";
import type { Timer } from "../ports.ts";
import { causes, type DueAction, decideSilence, decideTimer, runningDueAt } from "./decide.ts";
import { endTurn, failTurn, terminate } from "./end.ts";
import { settleTimedOut } from "./finalize.ts";
import { when } from "./guards.ts";
import { runDirOf } from "./launch.ts";
import type { Actor, Task } from "./schema.ts";

/** A timer fires: reads, decides, and does nothing, waits on, or ends the turn. */
export async function fireTimer(deps: EndingDeps, timer: Timer): Promise<void> {
  const task = await deps.store.getTask(timer.taskId);
  const action = decideTimer(task, timer, deps.clock.now());
  if (action.kind === "again") return await deps.timers.arm(timer, action.inMs);
  if (!task) return;
  if (action.kind !== "nothing") countLateness(deps, task, timer);
  await act(deps, task, action, "timer");
}

/** Carries out what a timer, or the reaper in its place, found to do. */
export async function act(deps: EndingDeps, task: Task, action: DueAction, by: Actor): Promise<void> {
  switch (action.kind) {
    case "nothing":
    case "again":
      return;
    case "provision":
      return await deps.work.send({ kind: "provision", taskId: task.id, turn: task.turn });
    case "ask":
      return await askBeforeEnding(deps, task, by);
    case "end":
      return await endOverdue(deps, task, by);
    case "terminate":
      await terminate(deps, task, by);
      return;
    case "count":
      return await countEnded(deps, task);
    case "settle":
      return await settleTimedOut(deps, task, by);
  }
}

async function countEnded(deps: EndingDeps, task: Task): Promise<void> {
  const usage = usageOf(task);
  if (usage) await countUsage(deps, usage);
}

async function endOverdue(deps: EndingDeps, task: Task, by: Actor): Promise<void> {
  if (!(await deps.flags.isOn("ENABLE_AUTHORITATIVE_TIMEOUT", task.userId))) return;
  deps.metrics.count("timeout_ended");
  await endTurn(deps, task, causes.deadline, by);
}

/** Asks the sandbox itself once, so that a lost callback is not taken for silence. */
async function askBeforeEnding(deps: EndingDeps, task: Task, by: Actor): Promise<void> {
  const { provider, clock, timers, flags, store, metrics } = deps;
  if (!task.sandbox || !(await flags.isOn("ENABLE_INACTIVITY_TIMEOUT", task.userId))) return;
  try {
    const found = await provider.probe(task.sandbox.name);
    if (found.health !== "healthy" || found.sandbox.sessionId !== task.sandbox.sessionId) {
      metrics.count("silence_asked", 1, { found: "lost" });
      return await failTurn(deps, task, when.running(task.turn), sandboxLost, by);
    }
    const verdict = decideSilence(task, await provider.ask(task.sandbox, runDirOf(task)), clock.now());
    metrics.count("silence_asked", 1, { found: verdict === "silent" ? "silent" : "alive" });
    if (verdict === "silent") {
      await endTurn(deps, task, causes.inactivity, by);
      return;
    }
    await wakeLater(verdict.activeAt);
  } catch (error) {
    // No answer is no silence. The deadline still stands.
    if (!(error instanceof ProviderError)) throw error;
    metrics.count("silence_asked", 1, { found: "no_answer" });
    await wakeLater(clock.now());
  }

  async function wakeLater(activeAt: number): Promise<void> {
    const seen = { ...task, lastActivityAt: Math.max(activeAt, task.lastActivityAt) };
    await store.changeTask(task.id, when.running(task.turn), {
      set: { lastActivityAt: seen.lastActivityAt, dueAt: runningDueAt(seen) },
    });
    const leftMs = seen.lastActivityAt + task.limits.inactivityMs - clock.now();
    await timers.arm({ kind: "inactivity", taskId: task.id, turn: task.turn }, Math.max(leftMs, 1000));
  }
}

const sandboxLost = { code: "sandbox_lost", detail: "The sandbox went away under the agent." } as const;
