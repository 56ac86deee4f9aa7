import type { LaunchDeps } from "../deps.ts";
import { NoRoomError, ProviderError, SetupError } from "../errors.ts";
import { claimMs, claimRenewMs, sandboxSlackMs, takeOversKept } from "../limits.ts";
import { removeLeftovers } from "../pool/slots.ts";
import type { Room } from "../ports.ts";
import { forgetSandbox, mustProbe } from "../session/release.ts";
import { decideClaim, givenBack, isClaimedBy, retryDelayMs } from "./decide.ts";
import { endTurn } from "./end.ts";
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
  const claimed = await claim(deps, taskId, turn, claimId);
  if (!claimed) return;

  const { task } = claimed;
  const progress = createProgress(deps, task);
  const attempted: Attempt = { ...claimed, claimId, attempt, room: undefined };
  try {
    await giveSandboxAndLaunch(deps, attempted, progress);
  } catch (error) {
    await recover(deps, attempted, error, progress);
  }
}

interface Attempt {
  task: Task;
  /** Nobody can have armed the turn's deadline: this is its first worker, or takes over from one that died. */
  isFirst: boolean;
  /** An earlier worker had this turn, and may have launched it. */
  isTakenOver: boolean;
  claimId: string;
  /** How often it was tried before. */
  attempt: number;
  /** From when it is known. */
  room: Room | undefined;
}

/** The claim is renewed only while this runs: a claim that was given back must not be renewed afterwards. */
async function giveSandboxAndLaunch(deps: LaunchDeps, attempted: Attempt, progress: Progress): Promise<void> {
  const { task, claimId, isFirst, isTakenOver } = attempted;
  const { id: taskId, turn, userId, sessionKey, deadlineAt } = task;
  await using _renewal = renewClaim(deps, task, claimId);
  const deadline = { kind: "deadline", taskId, turn } as const;
  const armed = isFirst ? deps.timers.arm(deadline, deadlineAt - deps.clock.now()) : Promise.resolve();
  armed.catch(() => {});
  const wanted = deps.sessions.getRoom({
    userId,
    sessionKey,
    until: deadlineAt + sandboxSlackMs,
    holder: { taskId, turn },
    isWanted: async () => isClaimedBy(await deps.store.getTask(taskId), turn, claimId),
    progress,
  });
  const room = await wanted.catch(async (error: unknown) => {
    // The worker that comes after a claim was given back relies on the timer. If it was not armed, that is the error: the
    // claim is not given back, and who takes over arms it.
    await armed;
    throw error;
  });
  if (room === "unwanted") return;
  if (room === "not the holder") {
    const cause = { outcome: "failed", error: lostSession } as const;
    await endTurn(deps, task, cause, "worker", when.claimedBy(turn, claimId));
    return;
  }
  attempted.room = room;
  await armed;
  // An earlier worker of this turn may have launched it in a sandbox that the session gave up since. Remove that sandbox
  // before this launch; otherwise a stop looks only in the new one, and calls the turn dead while it runs in the old.
  if (isTakenOver) {
    const session = { userId, key: sessionKey };
    const keepSnapshots = room.replaced?.kept ?? false;
    await removeLeftovers(deps, session, { name: room.sandbox.name, epoch: room.epoch }, { keepSnapshots });
  }
  await launch(deps, task, claimId, room, progress);
}

/** Optimistic: mostly the turn waits for just this message, so it is read only where the write loses. */
async function claim(
  deps: LaunchDeps,
  taskId: string,
  turn: number,
  claimId: string,
): Promise<Pick<Attempt, "task" | "isFirst" | "isTakenOver"> | undefined> {
  const { store, clock, work } = deps;
  const now = clock.now();
  const state = { status: "provisioning", claim: { id: claimId, until: now + claimMs } } as const;
  const set = { state, dueAt: now + claimMs };
  const phase = { turn, status: "provisioning", at: now, by: "worker" } as const;
  const claimed = await store.changeTask(taskId, when.queued(turn), { set, phase });
  if (claimed.won) return { task: claimed.item, isFirst: true, isTakenOver: false };

  const verdict = decideClaim(claimed.item, turn, claimId, now);
  switch (verdict.kind) {
    case "nothing":
      return undefined;
    case "mine":
      return claimed.item && { task: claimed.item, isFirst: true, isTakenOver: false };
    case "wait":
      await work.send({ kind: "provision", taskId, turn }, verdict.ms);
      return undefined;
    case "take over": {
      // A retry is no new phase: a turn that waits for hours would grow its item without bound.
      const isNoted = !verdict.isRetry && takeOversOf(claimed.item) < takeOversKept;
      const noted = isNoted ? { phase: { ...phase, note: "taken over from a worker that died" } } : {};
      const taken = await store.changeTask(taskId, when.claimRanOut(turn, now), { set, ...noted });
      return taken.won ? { task: taken.item, isFirst: !verdict.isRetry, isTakenOver: true } : undefined;
    }
  }
}

function takeOversOf(task: Task | undefined): number {
  return (
    task?.phases.filter(({ turn, status }) => turn === task.turn && status === "provisioning").length ?? 0
  );
}

/** Holds the claim for as long as this worker lives. A renewal that loses means the turn has gone on without us. */
function renewClaim({ store, clock }: LaunchDeps, task: Task, claimId: string): AsyncDisposable {
  const done = new AbortController();
  const renew = async (): Promise<boolean> => {
    const until = clock.now() + claimMs;
    const outcome = await store.changeTask(task.id, when.claimedBy(task.turn, claimId), {
      set: { state: { status: "provisioning", claim: { id: claimId, until } }, dueAt: until },
    });
    return outcome.won;
  };
  const renewing = (async () => {
    for (;;) {
      await clock.sleep(claimRenewMs, done.signal);
      if (done.signal.aborted) return;
      // One write that fails only shortens the claim: the next renewal may still be in time.
      if (!(await renew().catch(() => true))) return;
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      done.abort();
      await renewing;
    },
  };
}

/**
 * What the provider refuses, or the setup cannot do, will not get better, and ends the turn: with proof, because an
 * earlier worker may have launched it before it died. A sandbox that is gone is forgotten, so that the next try makes
 * another; one that stopped is resumed by the next try. All else is tried again, by any worker, until the deadline.
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
    const cause = { outcome: "failed", error: { code: "provision_failed", detail: error.message } } as const;
    await endTurn(deps, task, cause, "worker", when.claimedBy(turn, claimId));
    return;
  }
  if (!(error instanceof ProviderError || error instanceof NoRoomError)) throw error;

  const kind = error instanceof ProviderError ? error.kind : undefined;
  const isOver = kind === "gone" || kind === "stopped";
  if (room && kind === "gone") await forgetSandbox(deps, task, room);
  if (room && kind === "stopped") await mustProbe(deps, task, room);
  if (kind !== undefined && !isOver) metrics.count("health_unknown");
  if (isOver && attempt >= loopAttempts) metrics.count("reinstall_loop");
  const askedMs = error instanceof ProviderError ? error.retryAfterMs : undefined;
  // What was found gone or stopped is replaced or resumed at once; only what cannot be had now is waited for.
  const delayMs = isOver && attempt === 0 ? 0 : retryDelayMs(attempt, taskId, askedMs);
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
  const again = delayMs === 0 ? "trying again at once" : `trying again in ${Math.ceil(delayMs / 1000)} s`;
  if (error instanceof NoRoomError) return `${error.message} The turn waits for one; ${again}.`;
  if (error.kind === "gone") return `The sandbox is gone; ${again}, in another.`;
  if (error.kind === "stopped") return `The sandbox stopped; ${again}, with its files.`;
  return `The provider is not available (${error.kind}); ${again}.`;
}

/** One sandbox may go away under its turn, and its successor too; from the third on it is not by chance. */
const loopAttempts = 2;

const lostSession = {
  code: "internal",
  detail: "The session went to another turn before this one began.",
} as const;
