import { leaseGraceMs, longestCreateMs } from "../limits.ts";
import { isTerminal, type Task } from "../task/schema.ts";
import type { Lease, Session, SessionSandbox } from "./schema.ts";

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

/** A sandbox the session may still have: worth asking the provider for before another is made. */
export function reusableSandbox(session: Session, now: number): SessionSandbox | undefined {
  const sandbox = session.sandbox;
  if (!sandbox || sandbox.state === "releasing") return undefined;
  return sandbox.state === "ready" && sandbox.expiresAt <= now ? undefined : sandbox;
}

/** The same holding, made distinct: by any clock later than before, so that no holding ever looks like an older one. */
export function renewed(lease: Lease, now: number): Lease {
  return { ...lease, at: Math.max(now, lease.at + 1) };
}

/** The sandbox's name among those to be looked for, for as long as its create may still be under way. */
export function giveUp({ sandbox, tombstones = [] }: Session, now: number): Pick<Session, "tombstones"> {
  if (!sandbox) return {};
  const left = tombstones.filter(({ until }) => until > now);
  return { tombstones: [...left, { name: sandbox.name, until: now + longestCreateMs }] };
}
