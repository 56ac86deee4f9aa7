import type { LaunchDeps } from "../deps.ts";
import { NoRoomError, ProviderError, SetupError } from "../errors.ts";
import { claimMs, claimRenewMs, sandboxSlackMs } from "../limits.ts";
import type { Room } from "../ports.ts";
import { forgetSandbox } from "../session/release.ts";
import { decideClaim, givenBack, isClaimedBy, retryDelayMs } from "./decide.ts";
import { endTurn, failTurn } from "./end.ts";
import { when } from "./guards.ts";
import { launch } from "./launch.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { Task } from "./schema.ts";

/** Gives a turn its sandbox and its runner. Any number of these may run for one turn: one claim, one launch counts. */
export async function provision(
  deps: LaunchDeps,
  { taskId, turn, attempt = 0 }: { taskId: string; turn: number; attempt?: number },
): Promise<void> {
  const claimId = deps.ids.claim();
  const task = await claim(deps, taskId, turn, claimId);
  if (!task) return;

  const progress = createProgress(deps, task);
  const attempted: Attempt = { task, claimId, attempt, room: undefined };
  try {
    await carryOut(deps, attempted, progress);
  } catch (error) {
    await recover(deps, attempted, error, progress);
  }
}

interface Attempt {
  task: Task;
  claimId: string;
  /** How often it was tried before. */
  attempt: number;
  /** From when it is known. */
  room: Room | undefined;
}

/** The claim is renewed no longer than this takes: whoever gives it back must not find it renewed behind him. */
async function carryOut(deps: LaunchDeps, attempted: Attempt, progress: Progress): Promise<void> {
  const { task, claimId } = attempted;
  const { id: taskId, turn, userId, sessionKey, deadlineAt } = task;
  await using _renewal = renewClaim(deps, task, claimId);
  const armed = deps.timers.arm({ kind: "deadline", taskId, turn }, deadlineAt - deps.clock.now());
  // It is waited for below, before anything is launched; should the room fail first, that is the error.
  armed.catch(() => {});
  const room = await deps.sessions.getRoom({
    userId,
    sessionKey,
    until: deadlineAt + sandboxSlackMs,
    holder: { taskId, turn },
    isWanted: async () => isClaimedBy(await deps.store.getTask(taskId), turn, claimId),
    progress,
  });
  if (room === "unwanted") return;
  if (room === "not the holder")
    return await failTurn(deps, task, when.claimedBy(turn, claimId), lostSession, "worker");
  attempted.room = room;
  await armed;
  await launch(deps, task, claimId, room, progress);
}

/** Mostly the turn waits for just this: it is claimed unread, and only looked at where it was not. */
async function claim(
  deps: LaunchDeps,
  taskId: string,
  turn: number,
  claimId: string,
): Promise<Task | undefined> {
  const { store, clock, work } = deps;
  const now = clock.now();
  const state = { status: "provisioning", claim: { id: claimId, until: now + claimMs } } as const;
  const set = { state, dueAt: now + claimMs };
  const phase = { turn, status: "provisioning", at: now, by: "worker" } as const;
  const claimed = await store.changeTask(taskId, when.queued(turn), { set, phase });
  if (claimed.won) return claimed.item;

  const verdict = decideClaim(claimed.item, turn, now);
  if (verdict.kind === "nothing") return undefined;
  if (verdict.kind === "wait") {
    await work.send({ kind: "provision", taskId, turn }, verdict.ms);
    return undefined;
  }
  const note = verdict.isRetry ? "tried again" : "taken over from a worker that died";
  const change = { set, phase: { ...phase, note } };
  const takenOver = await store.changeTask(taskId, when.claimRanOut(turn, now), change);
  return takenOver.won ? takenOver.item : undefined;
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
 * What the provider refuses, or the setup can not do, will not get better, and ends the turn: with proof, once it had
 * a sandbox, in which an earlier worker may have launched it. What is gone is forgotten, so that the next try makes
 * another. All else is tried again, by whichever worker, until the deadline ends it.
 */
async function recover(
  deps: LaunchDeps,
  { task, claimId, attempt, room }: Attempt,
  error: unknown,
  progress: Progress,
): Promise<void> {
  const { store, clock, work, metrics } = deps;
  const { id: taskId, turn } = task;
  const isRefused =
    error instanceof SetupError || (error instanceof ProviderError && error.kind === "refused");
  if (isRefused) {
    const refused = { code: "provision_failed", detail: error.message } as const;
    const mine = when.claimedBy(turn, claimId);
    if (room) await endTurn(deps, task, { outcome: "failed", error: refused }, "worker", mine);
    else await failTurn(deps, task, mine, refused, "worker");
    return;
  }
  if (!(error instanceof ProviderError || error instanceof NoRoomError)) throw error;

  const isGone = error instanceof ProviderError && (error.kind === "gone" || error.kind === "stopped");
  if (room && isGone) await forgetSandbox(deps, task, room);
  if (error instanceof ProviderError && !isGone) metrics.count("health_unknown");
  if (isGone && attempt >= loopAttempts) metrics.count("reinstall_loop");
  const askedMs = error instanceof ProviderError ? error.retryAfterMs : undefined;
  // What was found gone is replaced at once, within the same turn; only what can not be had now is waited for.
  const delayMs = isGone && attempt === 0 ? 0 : retryDelayMs(attempt, taskId, askedMs);
  await progress("retrying", describe(error, delayMs));
  const until = clock.now();
  await store.changeTask(taskId, when.claimedBy(turn, claimId), {
    set: {
      state: { status: "provisioning", claim: { id: givenBack, until } },
      dueAt: until + delayMs + claimMs,
    },
  });
  await work.send({ kind: "provision", taskId, turn, attempt: attempt + 1 }, delayMs);
}

function describe(error: ProviderError | NoRoomError, delayMs: number): string {
  const again = delayMs === 0 ? "another is made" : `trying again in ${Math.ceil(delayMs / 1000)} s`;
  if (error instanceof NoRoomError) return `${error.message} It waits for one; ${again}.`;
  if (error.kind === "gone" || error.kind === "stopped") return `The sandbox is gone; ${again}.`;
  return `The provider is not available (${error.kind}); ${again}.`;
}

/** One sandbox may go away under its turn, and its successor too; from the third on it is not by chance. */
const loopAttempts = 2;

const lostSession = {
  code: "internal",
  detail: "The session went to another turn before this one began.",
} as const;
