import { createPollMs, extendEveryMs, leaseGraceMs } from "../limits.ts";
import type { SessionGuard } from "../ports.ts";
import { isTerminal, type Task } from "../task/schema.ts";
import type { Lease, ReadySandbox, Session, SessionSandbox } from "./schema.ts";

type CreatingSandbox = Extract<SessionSandbox, { state: "creating" }>;

export type LeaseVerdict =
  | { kind: "mine" }
  | { kind: "free"; over: Lease | null }
  | { kind: "busy"; holder: Lease };

/**
 * Whether a turn may have the session.
 *
 *   lease taken        task written         turn ended
 *   ────┬──────────────────┬───────────────────┬─────────────►
 *       │ held for a grace │ held              │ free
 *       │ (then free: its starter died)
 */
export function decideLease(
  session: Session | undefined,
  holder: Task | undefined,
  want: { taskId: string; turn: number },
  now: number,
): LeaseVerdict {
  const lease = session?.lease;
  if (!lease) return { kind: "free", over: null };
  if (lease.taskId === want.taskId && lease.turn === want.turn) return { kind: "mine" };

  const unwritten = holder === undefined || holder.turn < lease.turn;
  const held = unwritten
    ? now - lease.at < leaseGraceMs
    : holder.turn === lease.turn && !isTerminal(holder.state.status);
  return held ? { kind: "busy", holder: lease } : { kind: "free", over: lease };
}

export type RoomVerdict =
  | { kind: "probe"; sandbox: ReadySandbox }
  /** Another makes it: it is his for so long. */
  | { kind: "wait"; ms: number }
  /** Whoever was making it is gone; it may have come into being. */
  | { kind: "look for"; sandbox: CreatingSandbox }
  | { kind: "make" };

/** What is to be done for the session to have a sandbox; `by` is who asks. */
export function decideRoom({ sandbox }: Session, by: string, now: number): RoomVerdict {
  switch (sandbox?.state) {
    case "ready":
      if (sandbox.busy && sandbox.busy.by !== by && sandbox.busy.until > now)
        return { kind: "wait", ms: Math.min(createPollMs, sandbox.busy.until - now) };
      return { kind: "probe", sandbox };
    case "creating":
      if (sandbox.by === by || sandbox.until <= now) return { kind: "look for", sandbox };
      return { kind: "wait", ms: Math.min(createPollMs, sandbox.until - now) };
    case "releasing":
    case undefined:
      return { kind: "make" };
  }
}

export type LifeVerdict = { kind: "lasts" } | { kind: "extend"; byMs: number } | { kind: "move" };

/**
 * Whether a sandbox lives long enough for a use, and is kept for as long as idle ones are.
 *
 *   started            now          until        wanted            the plan's end
 *   ───┬────────────────┬─────────────┬─────────────┬───────────────────┬──────►
 *      │                │ must last   │ should last │ can not be passed
 */
export function decideLife(
  { startedAt, expiresAt, extendedAt }: Pick<ReadySandbox, "startedAt" | "expiresAt" | "extendedAt">,
  { until, idleMs, maxMs }: { until: number; idleMs: number; maxMs: number },
  now: number,
): LifeVerdict {
  const end = startedAt + maxMs;
  // Another would last longer by what this one has lived; for less than a moment it is not worth it.
  if (end < until && now - startedAt > moveWorthMs) return { kind: "move" };
  const wanted = Math.min(Math.max(until, now + idleMs), end);
  if (expiresAt >= wanted) return { kind: "lasts" };
  const isPressing = expiresAt < Math.min(until, end);
  return isPressing || now - extendedAt >= extendEveryMs
    ? { kind: "extend", byMs: wanted - expiresAt }
    : { kind: "lasts" };
}

const moveWorthMs = 60_000;

/** The same holding, made distinct: by any clock later than before, so that no holding ever looks like an older one. */
export function renewed(lease: Lease, now: number): Lease {
  return { ...lease, at: Math.max(now, lease.at + 1) };
}

/** The files that a sandbox was being made from: they are the session's, whatever became of the sandbox. */
export function filesOf(sandbox: SessionSandbox): Pick<Session, "snapshotId"> {
  const isMoving = sandbox.state === "creating" && sandbox.snapshotId !== undefined;
  return isMoving ? { snapshotId: sandbox.snapshotId } : {};
}

/**
 * A write that was decided on while the sandbox was being made loses once it is made. The write that makes it ready moves
 * neither the epoch nor, without a turn, the lease: one that saw less would give a sandbox up that is in use by now.
 */
export function stillMaking({ sandbox }: Session): Pick<SessionGuard, "maker"> {
  return sandbox?.state === "creating" ? { maker: sandbox.by } : {};
}
