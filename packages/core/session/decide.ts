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
 * Whether a turn may take the session.
 *
 *   lease taken        task written         turn ended
 *   ────┬──────────────────┬───────────────────┬─────────────►
 *       │ grace period    │ held              │ free
 *       │ then free: its starter died
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

export type SandboxVerdict =
  | { kind: "probe"; sandbox: ReadySandbox }
  /** Another process is creating or changing it. Wait this long. */
  | { kind: "wait"; ms: number }
  /** Its creator is gone, but the sandbox may exist. */
  | { kind: "adopt"; sandbox: CreatingSandbox }
  | { kind: "create" };

/** What to do so that the session has a sandbox; `by` is the caller. */
export function decideSandbox({ sandbox }: Session, by: string, now: number): SandboxVerdict {
  switch (sandbox?.state) {
    case "ready":
      if (sandbox.busy && sandbox.busy.by !== by && sandbox.busy.until > now)
        return { kind: "wait", ms: Math.min(createPollMs, sandbox.busy.until - now) };
      return { kind: "probe", sandbox };
    case "creating":
      if (sandbox.by === by || sandbox.until <= now) return { kind: "adopt", sandbox };
      return { kind: "wait", ms: Math.min(createPollMs, sandbox.until - now) };
    case "releasing":
    case undefined:
      return { kind: "create" };
  }
}

export type LifeVerdict = { kind: "lasts" } | { kind: "extend"; byMs: number } | { kind: "move" };

/**
 * Whether a sandbox lives long enough for a use and the idle time after it, must be extended, or must be moved.
 *
 *   started            now          until        wanted            the plan's end
 *   ───┬────────────────┬─────────────┬─────────────┬───────────────────┬──────►
 *      │                │ must last   │ should last │ hard limit
 */
export function decideLife(
  { startedAt, expiresAt, extendedAt }: Pick<ReadySandbox, "startedAt" | "expiresAt" | "extendedAt">,
  { until, idleMs, maxMs }: { until: number; idleMs: number; maxMs: number },
  now: number,
): LifeVerdict {
  const end = startedAt + maxMs;
  // A new sandbox would last longer by what this one has lived. Below a minute a move is not worth it.
  if (end < until && now - startedAt > moveWorthMs) return { kind: "move" };
  const wanted = Math.min(Math.max(until, now + idleMs), end);
  if (expiresAt >= wanted) return { kind: "lasts" };
  const isPressing = expiresAt < Math.min(until, end);
  return isPressing || now - extendedAt >= extendEveryMs
    ? { kind: "extend", byMs: wanted - expiresAt }
    : { kind: "lasts" };
}

const moveWorthMs = 60_000;

/** The same holding with a later `at`, by any clock, so that no holding looks like an older one. */
export function renewed(lease: Lease, now: number): Lease {
  return { ...lease, at: Math.max(now, lease.at + 1) };
}

/** The snapshot a sandbox was being created from. It belongs to the session, even if the create fails. */
export function filesOf(sandbox: SessionSandbox): Pick<Session, "snapshotId"> {
  const isMoving = sandbox.state === "creating" && sandbox.snapshotId !== undefined;
  return isMoving ? { snapshotId: sandbox.snapshotId } : {};
}

/**
 * Guard for writes decided while the sandbox was being created: they lose once it is ready. The write that makes it
 * ready moves neither the epoch nor, without a turn, the lease; without this guard a stale process would give up a
 * sandbox that is in use.
 */
export function stillCreating({ sandbox }: Session): Pick<SessionGuard, "maker"> {
  return sandbox?.state === "creating" ? { maker: sandbox.by } : {};
}
