import { isTerminal, limits, type Session, type SweepResult, type Task, type Timer } from "@concierge/core";
import type { Role } from "./world.ts";

export interface EvidenceOptions {
  report: (invariant: number, what: string) => void;
  tasks: ReadonlyMap<string, Task>;
  sessions: ReadonlyMap<string, Session>;
  /** Whether a sandbox of that name exists, running or stopped. */
  exists: (name: string) => boolean;
  now: () => number;
}

/** How late someone looks at a due item: the reaper's minute, its slack, and two clocks that differ. */
const lookSlackMs = 4 * 60_000;
/** A runner that has not written its state for this long counts as dead (`task/decide.ts`). */
const staleRunnerMs = 60_000;

export type Evidence = ReturnType<typeof createEvidence>;

/**
 * Checks what was known when something was given up, and what was still owed when something ended:
 *
 *   4  a turn whose runner is lost ends in time; each attempt to end a turn is recorded before it is made; the reaper
 *      moves what it looked at out of the way
 *   6  a runner stops its agent only if Concierge said so
 *   11 an existing sandbox is given up only on request, with its files, or to end a turn
 *   12 the follow-up of an end is done: the webhook is queued, and the usage is counted at most once
 */
export function createEvidence({ report, tasks, sessions, exists, now }: EvidenceOptions) {
  const sweeps = new Map<string, { unanswered: number; isAlive: boolean }>();
  const snapshotRefused = new Set<string>();
  const lostRunners = new Map<string, number>();
  const attempts = new Map<string, number>();
  const arms = new Map<string, number>();
  const looks = new Set<string>();
  const ends = new Map<string, { wantsWebhook: boolean }>();
  const announced = new Set<string>();
  const followedUp = new Map<string, number>();
  const counted = new Map<string, number>();
  let calmAt: number | undefined;

  function sessionWritten(before: Session, after: Session): void {
    const had = before.sandbox;
    if (had?.state !== "ready") return;
    const has = after.sandbox;
    if (has?.name !== had.name) {
      const isMoved = has?.state === "creating" && has.snapshotId !== undefined;
      if (!isMoved && !snapshotRefused.has(had.name) && exists(had.name))
        report(11, `${had.name} was given up although it exists and nobody requested that`);
      return;
    }
    if (has.state === "releasing") releasing(before);
  }

  /**
   * A kept sandbox is given up to end a turn only if a sweep found something alive, or several sweeps got no answer.
   */
  function releasing({ lease, sandbox }: Session): void {
    const task = lease && tasks.get(lease.taskId);
    if (!task || task.turn !== lease.turn || !task.keepAlive || isTerminal(task.state.status)) return;
    const tried = "attempts" in task.state ? (task.state.attempts ?? 0) : 0;
    const found = sweeps.get(`${task.id}-${task.turn}`);
    if (found?.isAlive || tried >= limits.unansweredSweepsMax) return;
    report(
      11,
      `${sandbox?.name} was given up to end ${task.id}/${task.turn} after ${found?.unanswered ?? 0} sweeps`,
    );
  }

  return {
    sessionWritten,

    /** Called before the removal: a session that names a sandbox as ready relies on it. */
    removing(name: string): void {
      for (const { sandbox } of sessions.values()) {
        if (sandbox?.state === "ready" && sandbox.name === name && exists(name))
          report(11, `${name} was removed while its session names it as ready`);
      }
    },

    /** What the caller of a sweep was told. */
    swept(runDir: string, found: SweepResult | "no answer"): void {
      const turn = runDir.slice(runDir.lastIndexOf("/") + 1);
      const known = sweeps.get(turn) ?? { unanswered: 0, isAlive: false };
      if (found === "no answer") known.unanswered += 1;
      else known.isAlive ||= found !== "clean";
      sweeps.set(turn, known);
    },

    snapshotRefused: (name: string) => void snapshotRefused.add(name),

    runnerLost: (key: string) => void lostRunners.set(key, now()),

    taskWritten(key: string, before: Task, after: Task): void {
      const { state } = after;
      if ("attempts" in state) attempts.set(key, Math.max(attempts.get(key) ?? 0, state.attempts ?? 0));
      if (after.countedTurn === after.turn && before.countedTurn !== after.turn)
        followedUp.set(key, (followedUp.get(key) ?? 0) + 1);
      if (before.state.status === "running" && state.status !== "running") endsInTime(key, after);
      if (isTerminal(state.status) && !isTerminal(before.state.status))
        ends.set(key, { wantsWebhook: after.webhook !== undefined });
    },

    armed(role: Role, { kind, taskId, turn }: Timer): void {
      if (kind !== "terminate" || (role !== "timer" && role !== "reaper")) return;
      const key = `${taskId}/${turn}`;
      const count = (arms.get(key) ?? 0) + 1;
      arms.set(key, count);
      if (count > (attempts.get(key) ?? 0))
        report(4, `${key} has ${count} timers for its end, and ${attempts.get(key) ?? 0} attempts on record`);
    },

    /** Without faults: a reaper pass reads a task that it found in the due index. */
    reaperRead({ id, dueAt }: Task): void {
      const key = `${id} ${dueAt}`;
      if (dueAt !== undefined && looks.has(key))
        report(4, `the reaper came back to ${id}, which it had not moved out of the way`);
      looks.add(key);
    },

    isCalm: () => calmAt !== undefined,

    stopped(key: string, isOurs: boolean): void {
      if (!isOurs) report(6, `the agent of ${key} was stopped by an answer that is not Concierge's`);
    },

    announced: (taskId: string, turn: number) => void announced.add(`${taskId}/${turn}`),

    used(userId: string, turns: number): void {
      const sum = (counted.get(userId) ?? 0) + turns;
      counted.set(userId, sum);
      const marked = [...followedUp].filter(([key]) => tasks.get(key.split("/")[0] ?? "")?.userId === userId);
      const most = marked.reduce((total, [, times]) => total + times, 0);
      if (sum > most) report(12, `${sum} turns of ${userId} were counted, of ${most} that ended`);
    },

    calm(): void {
      calmAt = now();
    },

    checkSettled(): void {
      for (const [key, { wantsWebhook }] of ends) {
        if (!followedUp.has(key)) report(12, `nothing followed the end of ${key}`);
        if (wantsWebhook && !announced.has(key)) report(12, `the webhook of ${key} was never queued`);
      }
    },
  };

  function endsInTime(key: string, { limits: { inactivityMs } }: Task): void {
    const lostAt = lostRunners.get(key);
    if (lostAt === undefined || calmAt === undefined) return;
    const lateMs = now() - Math.max(lostAt, calmAt);
    const boundMs = Math.max(inactivityMs, staleRunnerMs) + inactivityMs + lookSlackMs;
    if (lateMs > boundMs) report(4, `${key} ran on for ${lateMs} ms without its runner`);
  }
}
