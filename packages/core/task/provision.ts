import type { LaunchDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { claimMs, claimRenewMs, retryProvisionMs } from "../limits.ts";
import { forgetSandbox } from "../session/index.ts";
import { assignSandbox } from "./assign.ts";
import { decideClaim } from "./decide.ts";
import { endTurn, failTurn } from "./end.ts";
import { when } from "./guards.ts";
import { launch } from "./launch.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { SandboxUse, Task } from "./schema.ts";

/** Gives a turn its sandbox and its runner. Any number of these may run for one turn: one claim, one launch counts. */
export async function provision(
  deps: LaunchDeps,
  { taskId, turn }: { taskId: string; turn: number },
): Promise<void> {
  const claimId = deps.ids.claim();
  const task = await claim(deps, taskId, turn, claimId);
  if (!task) return;

  const progress = createProgress(deps, task);
  const attempt: Attempt = { task, claimId, sandbox: undefined };
  try {
    await carryOut(deps, attempt, progress);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    await recover(deps, attempt, error, progress);
  }
}

interface Attempt {
  task: Task;
  claimId: string;
  /** From when it is known. */
  sandbox: SandboxUse | undefined;
}

/** The claim is renewed no longer than this takes: whoever gives it back must not find it renewed behind him. */
async function carryOut(deps: LaunchDeps, attempt: Attempt, progress: Progress): Promise<void> {
  const { task, claimId } = attempt;
  await using _renewal = renewClaim(deps, task, claimId);
  await deps.timers.arm(
    { kind: "deadline", taskId: task.id, turn: task.turn },
    task.deadlineAt - deps.clock.now(),
  );
  attempt.sandbox = await assignSandbox(deps, task, claimId, progress);
  if (attempt.sandbox) await launch(deps, task, claimId, attempt.sandbox, progress);
}

async function claim(
  deps: LaunchDeps,
  taskId: string,
  turn: number,
  claimId: string,
): Promise<Task | undefined> {
  const { store, clock, work } = deps;
  const now = clock.now();
  const verdict = decideClaim(await store.getTask(taskId), turn, now);
  switch (verdict.kind) {
    case "nothing":
      return undefined;
    case "wait":
      await work.send({ kind: "provision", taskId, turn }, verdict.ms);
      return undefined;
    case "claim":
    case "take over": {
      const guard = verdict.kind === "claim" ? when.queued(turn) : when.claimRanOut(turn, now);
      const outcome = await store.changeTask(taskId, guard, {
        set: {
          state: { status: "provisioning", claim: { id: claimId, until: now + claimMs } },
          dueAt: now + claimMs,
        },
        phase: {
          turn,
          status: "provisioning",
          at: now,
          by: "worker",
          ...(verdict.kind === "take over" && { note: "taken over from a worker that died" }),
        },
      });
      return outcome.won ? outcome.item : undefined;
    }
  }
}

/** Holds the claim for as long as this worker lives. A renewal that loses means the turn has gone on without us. */
function renewClaim({ store, clock }: LaunchDeps, task: Task, claimId: string): AsyncDisposable {
  const done = new AbortController();
  const renewing = (async () => {
    for (;;) {
      await clock.sleep(claimRenewMs, done.signal);
      if (done.signal.aborted) return;
      const until = clock.now() + claimMs;
      const outcome = await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
        set: { state: { status: "provisioning", claim: { id: claimId, until } }, dueAt: until },
      });
      if (!outcome.won) return;
    }
  })().catch(() => {
    // A failed renewal only shortens the claim; whoever takes it over finds what this worker made.
  });
  return {
    async [Symbol.asyncDispose]() {
      done.abort();
      await renewing;
    },
  };
}

/**
 * What the provider refuses will not get better, and ends the turn: with proof, once it had a sandbox, in which an
 * earlier worker may have launched it. What is gone is forgotten, so that the next try makes another. All else is tried
 * again, by whichever worker, until the deadline ends it.
 */
async function recover(
  deps: LaunchDeps,
  { task, claimId, sandbox }: Attempt,
  error: ProviderError,
  progress: Progress,
): Promise<void> {
  const { store, clock, work, metrics } = deps;
  if (error.kind === "refused") {
    const refused = { code: "provision_failed", detail: error.message } as const;
    const mine = when.claimedBy(task.turn, claimId);
    if (sandbox) await endTurn(deps, task, { outcome: "failed", error: refused }, "worker", mine);
    else await failTurn(deps, task, mine, refused, "worker");
    return;
  }
  if (sandbox && (error.kind === "gone" || error.kind === "stopped"))
    await forgetSandbox(deps, task, sandbox.epoch);
  metrics.count("health_unknown");
  await progress("retrying", `The provider is not available (${error.kind}); trying again.`);
  const until = clock.now();
  await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
    set: {
      state: { status: "provisioning", claim: { id: claimId, until } },
      dueAt: until + retryProvisionMs,
    },
  });
  await work.send({ kind: "provision", taskId: task.id, turn: task.turn }, retryProvisionMs);
}
