import { removeLeftovers } from "../capacity/slots.ts";
import type { LaunchDeps } from "../deps.ts";
import { CapacityError, ProviderError, SetupError } from "../errors.ts";
import { claimMs, claimRenewMs, sandboxSlackMs, takeOversKept } from "../limits.ts";
import { type AcquiredSandbox, acquireSandbox } from "../session/acquire.ts";
import { forgetSandbox, mustProbe } from "../session/release.ts";
import { decideClaim, givenBack, isClaimedBy, retryDelayMs } from "./decide.ts";
import { endTurn } from "./end.ts";
import { when } from "./guards.ts";
import { launch } from "./launch.ts";
import { createProgress, type Progress } from "./progress.ts";
import { type Task, tallied } from "./schema.ts";

/**
 * Gives a turn its sandbox and launches its runner. Many workers may run this for one turn; one claim and one launch
 * count.
 */
export async function provision(
  deps: LaunchDeps,
  { taskId, turn, attempt = 0 }: { taskId: string; turn: number; attempt?: number },
): Promise<void> {
  const claimId = deps.ids.claim();
  const claimed = await claim(deps, taskId, turn, claimId);
  if (!claimed) return;

  const { task } = claimed;
  const progress = createProgress(deps, task);
  const provisioning: Provisioning = {
    ...claimed,
    claimId,
    attempt,
    acquired: undefined,
    recreatesFailed: 0,
  };
  try {
    await acquireAndLaunch(deps, provisioning, progress);
  } catch (error) {
    await recover(deps, provisioning, error, progress);
  }
}

interface Provisioning {
  task: Task;
  /** The deadline timer may not be armed yet: this is the first worker, or it takes over from a dead one. */
  isFirst: boolean;
  claimId: string;
  /** How many attempts were made before. */
  attempt: number;
  acquired: AcquiredSandbox | undefined;
  /** Failed attempts of this worker to replace a lost sandbox. */
  recreatesFailed: number;
}

/** The claim is renewed only while this runs: a claim that was given back must not be renewed afterwards. */
async function acquireAndLaunch(
  deps: LaunchDeps,
  provisioning: Provisioning,
  progress: Progress,
): Promise<void> {
  const { task, claimId, isFirst } = provisioning;
  const { id: taskId, turn, userId, sessionKey, deadlineAt } = task;
  await using _renewal = renewClaim(deps, task, claimId);
  const deadline = { kind: "deadline", taskId, turn } as const;
  const armed = isFirst ? deps.timers.arm(deadline, deadlineAt - deps.clock.now()) : Promise.resolve();
  armed.catch(() => {});
  const acquiring = acquireSandbox(deps, {
    userId,
    sessionKey,
    until: deadlineAt + sandboxSlackMs,
    holder: { taskId, turn },
    by: `${taskId}/${turn}`,
    isWanted: async () => isClaimedBy(await deps.store.getTask(taskId), turn, claimId),
    progress,
    onRecreateFailed: () => {
      provisioning.recreatesFailed += 1;
    },
  });
  const acquired = await acquiring.catch(async (error: unknown) => {
    // The next worker relies on the deadline timer. If arming it failed, throw that error instead: the claim is then
    // not given back, and the worker that takes over arms it.
    await armed;
    throw error;
  });
  if (acquired === "unwanted") return;
  if (acquired === "not the holder") {
    const cause = { outcome: "failed", error: lostSession } as const;
    await endTurn(deps, task, cause, "worker", when.claimedBy(turn, claimId));
    return;
  }
  provisioning.acquired = acquired;
  await armed;
  // An earlier worker may have launched this turn in a sandbox that the session has given up since. Remove that sandbox
  // before this launch; otherwise a stop looks only in the new one and calls the turn dead while it runs in the old.
  if (task.maybeLaunched) {
    const session = { userId, key: sessionKey };
    const keepSnapshots = acquired.replaced?.kept ?? false;
    await removeLeftovers(
      deps,
      session,
      { name: acquired.sandbox.name, epoch: acquired.epoch },
      { keepSnapshots },
    );
  }
  await launch(deps, task, claimId, acquired, progress);
}

/** Optimistic claim: read the task only if the write loses. */
async function claim(
  deps: LaunchDeps,
  taskId: string,
  turn: number,
  claimId: string,
): Promise<Pick<Provisioning, "task" | "isFirst"> | undefined> {
  const { store, clock, work } = deps;
  const now = clock.now();
  const state = { status: "provisioning", claim: { id: claimId, until: now + claimMs } } as const;
  const set = { state, dueAt: now + claimMs };
  const phase = { turn, status: "provisioning", at: now, by: "worker" } as const;
  const claimed = await store.changeTask(taskId, when.queued(turn), { set, phase });
  if (claimed.won) return { task: claimed.item, isFirst: true };

  const verdict = decideClaim(claimed.item, turn, claimId, now);
  switch (verdict.kind) {
    case "nothing":
      return undefined;
    case "mine":
      return claimed.item && { task: claimed.item, isFirst: true };
    case "wait":
      await work.send({ kind: "provision", taskId, turn }, verdict.ms, claimed.item?.userId);
      return undefined;
    case "take over": {
      // A retry adds no phase: a turn that waits for hours would grow its item without bound.
      const isNoted = !verdict.isRetry && takeOversOf(claimed.item) < takeOversKept;
      const noted = isNoted ? { phase: { ...phase, note: "taken over from a worker that died" } } : {};
      const afterDeath = verdict.isRetry ? {} : { maybeLaunched: true };
      const change = { set: { ...set, ...afterDeath }, ...noted };
      const taken = await store.changeTask(taskId, when.claimRanOut(turn, now), change);
      return taken.won ? { task: taken.item, isFirst: !verdict.isRetry } : undefined;
    }
  }
}

function takeOversOf(task: Task | undefined): number {
  return (
    task?.phases.filter(({ turn, status }) => turn === task.turn && status === "provisioning").length ?? 0
  );
}

/** Renews the claim while this worker lives. A lost renewal means that another process has the turn. */
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
      // A failed write only shortens the claim; the next renewal may still be in time.
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
 * A refusal or a failing setup will not get better: the turn ends, with proof, because an earlier worker may have
 * launched it. A sandbox that is gone is forgotten, so the retry creates another. A stopped one is resumed by the
 * retry. Everything else is retried by any worker until the deadline.
 */
async function recover(
  deps: LaunchDeps,
  { task, claimId, attempt, acquired, recreatesFailed }: Provisioning,
  error: unknown,
  progress: Progress,
): Promise<void> {
  const { store, clock, work, metrics } = deps;
  const { id: taskId, turn } = task;
  const isRefused =
    error instanceof SetupError || (error instanceof ProviderError && error.kind === "refused");
  if (isRefused) {
    const cause = { outcome: "failed", error: { code: "provision_failed", detail: error.message } } as const;
    const counted = { ...task, ...tallied(task, { recreatesFailed }) };
    await endTurn(deps, counted, cause, "worker", when.claimedBy(turn, claimId));
    return;
  }
  if (!(error instanceof ProviderError || error instanceof CapacityError)) throw error;

  const kind = error instanceof ProviderError ? error.kind : undefined;
  const isOver = kind === "gone" || kind === "stopped";
  if (acquired && kind === "gone") await forgetSandbox(deps, task, acquired);
  if (acquired && kind === "stopped") await mustProbe(deps, task, acquired);
  if (kind !== undefined && !isOver) metrics.count("health_unknown");
  const isLoop = isOver && attempt >= loopAttempts;
  if (isLoop) metrics.count("reinstall_loop");
  const askedMs = error instanceof ProviderError ? error.retryAfterMs : undefined;
  // A sandbox that is gone or stopped is replaced or resumed at once. Otherwise wait.
  const delayMs = isOver && attempt === 0 ? 0 : retryDelayMs(attempt, taskId, askedMs);
  await progress("retrying", describe(error, delayMs));
  const until = clock.now();
  await store.changeTask(taskId, when.claimedBy(turn, claimId), {
    set: {
      state: { status: "provisioning", claim: { id: givenBack, until } },
      dueAt: until + delayMs + claimMs,
      ...(acquired && { maybeLaunched: true }),
      ...((isLoop || recreatesFailed > 0) && tallied(task, { recreatesFailed, loops: isLoop ? 1 : 0 })),
    },
  });
  await work.send({ kind: "provision", taskId, turn, attempt: attempt + 1 }, delayMs, task.userId);
}

function describe(error: ProviderError | CapacityError, delayMs: number): string {
  const again = delayMs === 0 ? "retrying at once" : `retrying in ${Math.ceil(delayMs / 1000)} s`;
  if (error instanceof CapacityError) return `${error.message} The turn waits for a sandbox; ${again}.`;
  if (error.kind === "gone") return `The sandbox is gone; ${again} in another one.`;
  if (error.kind === "stopped") return `The sandbox stopped; ${again} with its files.`;
  return `The provider is not available (${error.kind}); ${again}.`;
}

/** A sandbox and its successor may both be lost by chance; the third loss is a loop. */
const loopAttempts = 2;

const lostSession = {
  code: "internal",
  detail: "Another turn took the session before this one started.",
} as const;
