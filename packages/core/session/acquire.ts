import type { AcquireDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { environmentFreshMs, moveSnapshotMs, sandboxBusyMs, sessionRetentionMs } from "../limits.ts";
import type { LiveSandbox } from "../ports.ts";
import type { Origin } from "../task/schema.ts";
import { replaceSandbox } from "./create.ts";
import { decideLife, decideSandbox, renewed, stillCreating } from "./decide.ts";
import { probe } from "./health.ts";
import { mustProbe, whoHolds } from "./release.ts";
import type { ReadySandbox, Session } from "./schema.ts";
import { createSteps, type Steps } from "./steps.ts";

/** Who wants the session's sandbox, and for how long. */
export interface SandboxRequest {
  userId: string;
  sessionKey: string;
  /** How long the sandbox must last. */
  until: number;
  /** The turn that holds the session's lease; none for a request outside a turn. */
  holder: { taskId: string; turn: number } | undefined;
  /** Names the process that creates the sandbox, if it has to be created. */
  by: string;
  /** Checked after each read of the session: a turn that has ended meanwhile gets no sandbox. */
  isWanted: () => Promise<boolean>;
  progress: (step: string, detail: string) => Promise<void>;
  /** Called when an attempt to replace a lost sandbox failed. */
  onRecreateFailed?: () => void;
  /** The session as the caller just read it; saves the first read. */
  session?: Session | undefined;
}

/** A session's sandbox, ready for use. */
export interface AcquiredSandbox {
  sandbox: LiveSandbox;
  epoch: number;
  origin: Origin;
  /** How long each step took, in ms. */
  steps: Readonly<Record<string, number>>;
  /** Why the session's earlier sandbox could not be used. Its files are lost unless `kept`. */
  replaced?: { reason: ReplaceReason; kept: boolean } | undefined;
  /** When the user last reset the session's conversation. */
  resetAt?: number | undefined;
  /** How long the sandbox had been idle. */
  idleMs?: number | undefined;
  /** What is stored about the environment is old, or describes another sandbox. */
  environmentDue: boolean;
}

export type ReplaceReason = "gone" | "released" | "max_life";

/** One read of the session and what is done because of it. Every write is conditional on that read. */
export interface Acquisition {
  deps: AcquireDeps;
  request: SandboxRequest;
  session: Session;
  steps: Steps;
}

/** Why a session needs another sandbox, and the snapshot that has its files, if there is one. */
export interface Replacement {
  reason: ReplaceReason;
  snapshotId?: string | undefined;
}

/**
 * Gives a session its sandbox: its own if it can be used, otherwise a warm, restored or new one. Returns `unwanted` or
 * `not the holder` if the turn ended or lost the session meanwhile. Throws `CapacityError`, `SetupError` or
 * `ProviderError`. Any number of processes may call this for one session; they end up with one sandbox.
 */
export async function acquireSandbox(
  deps: AcquireDeps,
  request: SandboxRequest,
): Promise<AcquiredSandbox | "unwanted" | "not the holder"> {
  const { userId, sessionKey } = request;
  const steps = createSteps(deps.clock, request.progress);
  for (let known = request.session; ; known = undefined) {
    const session = known ?? (await deps.store.getSession(userId, sessionKey)) ?? (await open(deps, request));
    // A stop can land between our read and our next write. It writes the task first and then moves the lease. So check
    // the task after reading the session: a later stop makes each of our writes lose. Otherwise we launch a stopped turn.
    if (!(await request.isWanted())) return "unwanted";
    if (!isHeldBy(session, request.holder)) return "not the holder";
    const acquired = await acquireFrom({ deps, request, session, steps });
    if (acquired) return acquired;
    // Another process wrote the session, or is about to. Read it again.
  }
}

/** Undefined if a write lost, or after waiting for another process: the caller reads the session again. */
async function acquireFrom(acquisition: Acquisition): Promise<AcquiredSandbox | undefined> {
  const { deps, request, session, steps } = acquisition;
  const verdict = decideSandbox(session, request.by, deps.clock.now());
  switch (verdict.kind) {
    case "create":
      return await replaceSandbox(acquisition, replacementFor(session));
    case "wait":
      await deps.clock.sleep(verdict.ms);
      return undefined;
    case "adopt": {
      const { name, snapshotId } = verdict.sandbox;
      const found = await steps.step("probing", name, () => deps.provider.probe(name));
      // Its creator may have died before the setup was installed.
      const isComplete = deps.config.setup === undefined || snapshotId !== undefined;
      const replacement =
        snapshotId === undefined ? replacementFor(session) : { reason: "max_life" as const, snapshotId };
      if (found.health !== "healthy" || !isComplete) return await replaceSandbox(acquisition, replacement);
      const origin = snapshotId === undefined ? "cold" : "snapshot";
      return await use(acquisition, found.sandbox, origin, replacement);
    }
    case "probe": {
      const { name } = verdict.sandbox;
      const found = await steps.step("probing", name, () => probe(deps, request.userId, verdict.sandbox));
      if (found.health === "healthy") return await use(acquisition, found.sandbox, "reused");
      if (found.health === "gone") return await replaceSandbox(acquisition, { reason: "gone" });
      const resumed = await steps.step("resuming", name, () => resume(acquisition, name));
      if (!resumed) return await replaceSandbox(acquisition, { reason: "gone" });
      return await use(acquisition, resumed, "resumed");
    }
  }
}

/** Undefined if the sandbox is gone after all. A refused resume (a quota, a plan) keeps the sandbox and throws. */
async function resume({ deps }: Acquisition, name: string): Promise<LiveSandbox | undefined> {
  try {
    const live = await deps.provider.resume(name);
    deps.metrics.count("resumed", 1, { outcome: "done" });
    return live;
  } catch (error) {
    deps.metrics.count("resumed", 1, { outcome: "failed" });
    if (error instanceof ProviderError && error.kind === "gone") return undefined;
    throw error;
  }
}

/** Uses a running sandbox: extends its life or moves it if needed, then records the use. */
async function use(
  acquisition: Acquisition,
  live: LiveSandbox,
  origin: Origin,
  replacement?: Replacement,
): Promise<AcquiredSandbox | undefined> {
  const { deps, request, session } = acquisition;
  const { clock, config } = deps;
  const recorded = session.sandbox?.state === "ready" ? session.sandbox : undefined;
  const extendedAt = recorded?.sessionId === live.sessionId ? recorded.extendedAt : clock.now();
  const life = decideLife(
    { ...live, extendedAt },
    { until: request.until, idleMs: config.sessionIdleMs, maxMs: config.sandboxMaxMs },
    clock.now(),
  );
  const asItIs = { live, extendedAt, origin, replacement };
  if (life.kind === "lasts") return await recordUse(acquisition, asItIs);

  // Several processes may see at once that the sandbox ends soon. One marks it busy and the others wait. Otherwise ten
  // extend it tenfold, or two move it and one deletes the other's sandbox.
  const marked = recorded ? await markBusy(acquisition, recorded) : acquisition;
  if (!marked) return undefined;
  try {
    if (life.kind === "extend" && (await isExtended(deps, live, life.byMs))) {
      const extended = { ...live, expiresAt: live.expiresAt + life.byMs };
      return await recordUse(marked, { ...asItIs, live: extended, extendedAt: clock.now() });
    }
    // A request outside a turn never moves a sandbox that a turn uses.
    if (await isHeldByTurn(acquisition)) return await recordUse(marked, asItIs);
    return await move(marked, live);
  } catch (error) {
    if (recorded) await unmarkBusy(marked, recorded);
    if (!recorded || !(error instanceof SandboxEnded))
      throw error instanceof SandboxEnded ? error.cause : error;
    await mustProbe(deps, request, { sandbox: live });
    return undefined;
  }
}

/**
 * The sandbox stopped after the probe, or a snapshot whose answer was lost stopped it. Its files are still there, so it
 * is probed again and resumed. Creating another one would delete the files.
 */
class SandboxEnded extends Error {}

function asEnded(error: unknown): unknown {
  const hasEnded = error instanceof ProviderError && (error.kind === "stopped" || error.kind === "gone");
  return hasEnded ? new SandboxEnded(error.message, { cause: error }) : error;
}

interface SandboxInUse {
  live: LiveSandbox;
  extendedAt: number;
  origin: Origin;
  replacement: Replacement | undefined;
}

async function recordUse(
  acquisition: Acquisition,
  { live, extendedAt, origin, replacement }: SandboxInUse,
): Promise<AcquiredSandbox | undefined> {
  const { deps, request, session } = acquisition;
  const now = deps.clock.now();
  const { createdAt = now } = session.sandbox ?? {};
  const firstOrigin = session.sandbox?.state === "ready" ? session.sandbox.origin : origin;
  const outcome = await deps.store.changeSession(request.userId, request.sessionKey, asRead(session), {
    set: {
      ...usedAt(acquisition, now),
      sandbox: { state: "ready", ...live, createdAt, origin: firstOrigin, extendedAt },
    },
    remove: obsoleteWhenReady,
  });
  if (!outcome.won) return undefined;
  const kept = replacement?.snapshotId !== undefined;
  const replaced = replacement && { reason: replacement.reason, kept };
  return acquired(acquisition, live, session.epoch, origin, replaced);
}

/** Attributes that no longer apply once the session has a sandbox. */
export const obsoleteWhenReady = ["lost", "snapshotId", "deletedAt"] as const;

async function markBusy(acquisition: Acquisition, recorded: ReadySandbox): Promise<Acquisition | undefined> {
  const { deps, request, session } = acquisition;
  const now = deps.clock.now();
  const busy = { by: request.by, until: now + sandboxBusyMs };
  const set = { ...renewedLease(request, session, now), sandbox: { ...recorded, busy } };
  // A mark of our own, whose answer was lost or whose worker died, is no obstacle: the lease decides who goes on.
  const guard = { ...asRead(session), ...(recorded.busy?.by !== request.by && { notBusyAt: now }) };
  const marked = await deps.store.changeSession(request.userId, request.sessionKey, guard, { set });
  return marked.won ? { ...acquisition, session: marked.item } : undefined;
}

async function unmarkBusy({ deps, request, session }: Acquisition, recorded: ReadySandbox): Promise<void> {
  const { busy: _, ...sandbox } = recorded;
  await deps.store.changeSession(request.userId, request.sessionKey, asRead(session), { set: { sandbox } });
}

async function isHeldByTurn({ deps, request, session }: Acquisition): Promise<boolean> {
  return request.holder === undefined && (await whoHolds(deps.store, session, deps.clock.now())).held;
}

async function isExtended({ provider }: AcquireDeps, live: LiveSandbox, byMs: number): Promise<boolean> {
  try {
    await provider.extend(live, byMs);
    return true;
  } catch (error) {
    if (error instanceof ProviderError && error.kind === "refused") return false;
    throw asEnded(error);
  }
}

/** The sandbox would reach the plan's maximum life during the turn: the turn gets another one with the same files. */
async function move(acquisition: Acquisition, live: LiveSandbox): Promise<AcquiredSandbox | undefined> {
  const { deps, steps } = acquisition;
  const snapshot = async () => {
    try {
      return await deps.provider.snapshot(live, moveSnapshotMs);
    } catch (error) {
      if (error instanceof ProviderError && error.kind === "refused") return undefined;
      throw asEnded(error);
    }
  };
  const snapshotId = await steps.step("moving", `${live.name} is near the end of its life.`, snapshot);
  return await replaceSandbox(acquisition, { reason: "max_life", snapshotId });
}

/** Guard: the lease and epoch are exactly as read, and a sandbox that was being created still is. */
export function asRead(session: Session) {
  const { lease, epoch } = session;
  return { lease: lease ?? null, epoch, ...stillCreating(session) };
}

/** A holder's lease changes with each of its writes, so a process that read an older state loses its write. */
export function renewedLease({ holder }: SandboxRequest, { lease }: Session, now: number) {
  return holder && lease ? { lease: renewed(lease, now) } : {};
}

/** What each use writes. The reaper looks after the turn's deadline, or once a session without a turn was idle. */
export function usedAt({ deps, request, session }: Acquisition, now: number) {
  const isIdle = !request.holder && (session.isIdle ?? session.lease === undefined);
  const dueAt = Math.max(request.holder ? request.until : 0, now + deps.config.sessionIdleMs);
  return {
    ...renewedLease(request, session, now),
    lastUsedAt: now,
    isIdle,
    dueAt,
    expiresAt: now + sessionRetentionMs,
  };
}

export function acquired(
  { request, session, steps }: Acquisition,
  sandbox: LiveSandbox,
  epoch: number,
  origin: Origin,
  replaced?: AcquiredSandbox["replaced"],
): AcquiredSandbox {
  const { environment, idleSince, lastUsedAt, resetAt } = session;
  const isKnown = environment?.sandbox === sandbox.sessionId;
  const wasKept = request.holder && idleSince !== undefined && (origin === "reused" || origin === "resumed");
  return {
    sandbox,
    epoch,
    origin,
    steps: steps.taken,
    environmentDue: !isKnown || lastUsedAt - environment.probedAt > environmentFreshMs,
    ...(resetAt !== undefined && { resetAt }),
    ...(wasKept && { idleMs: Math.max(lastUsedAt - idleSince, 0) }),
    ...(replaced && { replaced }),
  };
}

function replacementFor({ lost, sandbox, snapshotId }: Session): Replacement | undefined {
  if (snapshotId !== undefined) return { reason: "max_life", snapshotId };
  if (sandbox?.state === "releasing") return { reason: "released" };
  return lost && { reason: lost };
}

function isHeldBy({ lease }: Session, holder: SandboxRequest["holder"]): boolean {
  return holder === undefined || (lease?.taskId === holder.taskId && lease.turn === holder.turn);
}

async function open({ store, clock }: AcquireDeps, { userId, sessionKey }: SandboxRequest): Promise<Session> {
  for (;;) {
    const now = clock.now();
    const fresh = { lastUsedAt: now, expiresAt: now + sessionRetentionMs };
    const opened = await store.changeSession(userId, sessionKey, { lease: null }, { set: fresh });
    const session = opened.item ?? (await store.getSession(userId, sessionKey));
    if (session) return session;
  }
}
