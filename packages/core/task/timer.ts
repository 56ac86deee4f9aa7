import type { EndingDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { silenceRetryMs } from "../limits.ts";
import { countLateness } from "../metrics/count.ts";
import type { Timer } from "../ports.ts";
import { causes, type DueAction, decideSilence, decideTimer, runningDueAt, silentAt } from "./decide.ts";
import { endTurn, failTurn, terminate } from "./end.ts";
import { settleTimedOut } from "./finalize.ts";
import { followUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { runDirOf } from "./launch.ts";
import { type Actor, commandOf, type Task, tallied } from "./schema.ts";

/** Reads the task, decides, and then does nothing, arms the timer again, or ends the turn. */
export async function fireTimer(deps: EndingDeps, timer: Timer): Promise<void> {
  const task = await deps.store.getTask(timer.taskId);
  const action = decideTimer(task, timer, deps.clock.now());
  if (action.kind === "again") return await deps.timers.arm(timer, action.inMs);
  if (!task) return;
  if (action.kind !== "nothing") countLateness(deps, task, timer);
  await act(deps, task, action, "timer");
}

/** Performs what a timer, or the reaper in its place, decided. */
export async function act(deps: EndingDeps, task: Task, action: DueAction, by: Actor): Promise<void> {
  switch (action.kind) {
    case "nothing":
    case "again":
      return;
    case "provision":
      return await deps.work.send({ kind: "provision", taskId: task.id, turn: task.turn }, 0, task.userId);
    case "ask":
      return await askBeforeEnding(deps, task, by);
    case "end":
      return await endOverdue(deps, task, by);
    case "terminate":
      await terminate(deps, task, by);
      return;
    case "follow up":
      return await followUp(deps, task);
    case "settle":
      return await settleTimedOut(deps, task, by);
  }
}

async function endOverdue(deps: EndingDeps, task: Task, by: Actor): Promise<void> {
  if (!(await deps.flags.isOn("ENABLE_AUTHORITATIVE_TIMEOUT", task.userId))) return;
  deps.metrics.count("timeout_ended");
  await endTurn(deps, task, causes.deadline, by);
}

/**
 * Looks into the sandbox before a silent turn is ended: a lost callback is not silence. Only what is found there counts
 * as activity. A provider that does not answer is asked again, but at the cap on silent work the turn ends in any case.
 */
async function askBeforeEnding(deps: EndingDeps, task: Task, by: Actor): Promise<void> {
  const { provider, clock, flags, metrics } = deps;
  if (!task.sandbox || !(await flags.isOn("ENABLE_INACTIVITY_TIMEOUT", task.userId))) return;
  const found = (what: string) => metrics.count("silence_asked", 1, { found: what });
  try {
    const probed = await provider.probe(task.sandbox.name);
    if (probed.health !== "healthy" || probed.sandbox.sessionId !== task.sandbox.sessionId) {
      found("lost");
      return await failTurn(deps, task, when.running(task.turn), sandboxLost, by);
    }
    const report = await provider.ask(task.sandbox, runDirOf(task), commandOf(task).commandId);
    const verdict = decideSilence(task, report, clock.now());
    found(typeof verdict === "string" ? verdict.replace(" ", "_") : "alive");
    if (typeof verdict !== "string") return await lookAgain(deps, { ...task, ...verdict }, verdict);
    await endTurn(deps, task, verdict === "silent" ? causes.inactivity : causes.runnerLost, by);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    found("no_answer");
    const isHung = silentAt({ ...task, aliveAt: clock.now() }) <= clock.now();
    if (isHung) await endTurn(deps, task, causes.inactivity, by);
    else await lookAgain(deps, task, {});
  }
}

async function lookAgain(
  { store, clock, timers }: EndingDeps,
  task: Task,
  evidence: Partial<Pick<Task, "lastActivityAt" | "aliveAt">>,
): Promise<void> {
  const now = clock.now();
  const isAlive = Object.keys(evidence).length > 0;
  const inMs = Math.max(silentAt(task) - now, isAlive ? 1000 : silenceRetryMs);
  await store.changeTask(task.id, when.running(task.turn), {
    set: {
      ...evidence,
      ...(isAlive && tallied(task, { falseSilences: 1 })),
      dueAt: Math.max(runningDueAt(task), now + inMs),
    },
  });
  await timers.arm({ kind: "inactivity", taskId: task.id, turn: task.turn }, inMs);
}

const sandboxLost = { code: "sandbox_lost", detail: "The sandbox was lost while the agent ran." } as const;
