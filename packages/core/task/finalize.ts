import type { Deps, EndingDeps, SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { finalizeMs, reaperSlackMs } from "../limits.ts";
import type { GitCredential } from "../ports.ts";
import { addIncident } from "../usage/usage.ts";
import { maskTexts, turnSecrets } from "./accept-output.ts";
import {
  decidePushed,
  decideRunnerAction,
  isPushGivenUp,
  type RunnerEnd,
  terminateBackoffMs,
} from "./decide.ts";
import { ended, requestFollowUp } from "./follow-up.ts";
import { when } from "./guards.ts";
import { closeNetwork, gitRules } from "./network.ts";
import { proveDeath } from "./prove.ts";
import { wasReported } from "./read.ts";
import { type Actor, commandOf, type Push, type Task, type TaskState } from "./schema.ts";
import { openSecrets } from "./secrets.ts";

type Turn = { taskId: string; turn: number };
type Grant = { action: "go"; credential: GitCredential | null } | { action: "stop" | "wait" };

/**
 * Gives the clone credential to the first caller. The runner asks before it starts the agent, so the agent cannot get
 * it.
 */
export async function grantClone(
  { store, sealer }: SealingDeps,
  { taskId, turn }: Turn,
  nonce: string,
): Promise<Grant> {
  const outcome = await store.changeTask(taskId, when.mayClone(turn, nonce), { set: { cloneNonce: nonce } });
  if (outcome.won) return { action: "go", credential: credentialFor(outcome.item, sealer) };
  const action = decideRunnerAction(outcome.item, turn);
  return { action: action === "wait" ? "wait" : "stop" };
}

/**
 * Grants the push. The credential is usable only after the write `running` → `finalizing`, which stop and deadline race
 * for. So there is no push after an acknowledged stop. If the provider injects credentials, the sandbox's policy allows
 * the push until its outcome is known; otherwise the runner gets the credential.
 */
export async function grantPush(deps: EndingDeps, { taskId, turn }: Turn, push: Push): Promise<Grant> {
  const { store, clock, sealer, timers, metrics } = deps;
  const task = await store.getTask(taskId);
  if (task && !task.repo?.push) throw new AppError("invalid_request", "This task does not push.");
  const now = clock.now();
  const finalizeBy = now + finalizeMs;
  await timers.arm({ kind: "finalize", taskId, turn }, finalizeMs);
  const masked = task ? maskTexts(turnSecrets(sealer, task), push) : push;
  const outcome = await store.changeTask(taskId, when.mayFinalize(turn, now), {
    set: {
      state: { status: "finalizing", push: masked, finalizeBy, ...(task && commandOf(task)) },
      dueAt: finalizeBy + reaperSlackMs,
    },
    phase: { turn, status: "finalizing", at: now, by: "runner" },
  });
  if (outcome.won) metrics.count("push_granted");
  const mine = outcome.won || isSameGrant(outcome.item, turn, push);
  if (!mine || !outcome.item) {
    metrics.count("push_refused");
    return { action: "stop" };
  }
  await openForPush(deps, outcome.item);
  return { action: "go", credential: credentialFor(outcome.item, sealer) };
}

/** Only if the provider cannot inject it does the credential enter the sandbox. */
function credentialFor(task: Task, sealer: SealingDeps["sealer"]): GitCredential | null {
  return task.sandbox?.hosts ? null : (openSecrets(sealer, task).git ?? null);
}

/** The agent has exited, so its model's key goes. A runner whose answer is lost asks again, and this is repeated. */
async function openForPush({ provider, sealer }: EndingDeps, task: Task): Promise<void> {
  const { sandbox, repo } = task;
  if (!sandbox?.hosts) return;
  const inject = gitRules(repo, openSecrets(sealer, task).git, ["fetch", "push"]);
  await provider.guardNetwork(sandbox, { allow: sandbox.hosts, inject });
}

/**
 * The runner reports the outcome of its push. That it was pushed is believed only if the remote says so too: the agent may
 * have read the runner's token and report anything. Without that, and while the credential can still be used, the turn
 * stays `finalizing`; the timer kills what is left and asks the remote again.
 */
export async function settleReported(
  deps: EndingDeps,
  { taskId, turn }: Turn,
  { pushed, detail }: Pick<RunnerEnd, "pushed" | "detail">,
): Promise<"done" | "stop" | "wait"> {
  const task = await deps.store.getTask(taskId);
  if (wasReported(task, turn)) return "done";
  if (task?.turn !== turn || task.state.status !== "finalizing") {
    if (pushed) await countUnexpectedPush(deps, taskId, task);
    return "stop";
  }
  const { push } = task.state;
  if (pushed && (await readOutcome(deps, task, push)) !== "pushed") return "done";
  if (!(await closeNetwork(deps, task))) return "done";
  const state = decidePushed(push, pushed ? "pushed" : "refused", deps.clock.now(), detail);
  return (await settle(deps, task, state, "runner")) ? "done" : "stop";
}

/**
 * Nobody reported the push's outcome: end the runner, then ask the remote. The push is never repeated. A remote that
 * does not answer is asked until a time limit; then the turn ends with the outcome unknown.
 */
export async function settleTimedOut(deps: EndingDeps, task: Task, by: Actor): Promise<void> {
  const { clock, store, timers } = deps;
  const { turn, state } = task;
  if (state.status !== "finalizing") return;
  const { attempts = 0, push, finalizeBy } = state;
  const againMs = terminateBackoffMs(attempts + 1);
  const recorded = await store.changeTask(task.id, when.nextAttempt(turn, "finalizing", attempts), {
    set: { state: { ...state, attempts: attempts + 1 }, dueAt: clock.now() + againMs + reaperSlackMs },
  });
  if (!recorded.won) return;
  await timers.arm({ kind: "finalize", taskId: task.id, turn }, againMs).catch(() => {});
  if (!(await proveDeath(deps, task, attempts + 1)) || !(await closeNetwork(deps, task))) return;
  const found = await readOutcome(deps, task, push);
  if (found === "unknown" && !isPushGivenUp(finalizeBy, clock.now())) return;
  await settle(deps, task, decidePushed(push, found, clock.now()), by);
}

async function readOutcome(
  { git, sealer }: EndingDeps,
  task: Task,
  { branch, commit }: Push,
): Promise<"pushed" | "timed out" | "unknown"> {
  try {
    const found = await git.readBranch(task.repo?.url ?? "", branch, openSecrets(sealer, task).git);
    return found === commit ? "pushed" : "timed out";
  } catch {
    return "unknown";
  }
}

async function countUnexpectedPush(deps: Deps, taskId: string, task: Task | undefined): Promise<void> {
  const after = endOf(task?.state);
  deps.metrics.count("push_unexpected", 1, { after });
  await addIncident(deps, task?.userId, ["push_unexpected", 1, after], taskId);
}

function endOf(state: TaskState | undefined): "stopped" | "timed_out" | "other" {
  const status = state?.status === "stopping" ? state.outcome : state?.status;
  return status === "stopped" || status === "timed_out" ? status : "other";
}

async function settle(deps: EndingDeps, task: Task, state: TaskState, by: Actor): Promise<boolean> {
  const change = ended(task.turn, state, deps.clock.now(), by);
  const outcome = await deps.store.changeTask(task.id, when.finalizing(task.turn), change);
  if (outcome.won) await requestFollowUp(deps, outcome.item);
  return outcome.won;
}

/** The runner's response was lost and it asks for the same grant again. */
function isSameGrant(task: Task | undefined, turn: number, push: Push): boolean {
  return task?.turn === turn && task.state.status === "finalizing" && task.state.push.commit === push.commit;
}
