import type { TaskGuard } from "../ports.ts";
import { statuses, terminalStatuses } from "./schema.ts";

/** Every condition for changing a task, by name. Each includes the turn, so an older turn changes nothing. */
export const when = {
  queued: (turn: number): TaskGuard => ({ turn, status: ["queued"] }),

  /**
   *   claimed        renewed        renewed         until
   *   ───┬──────────────┬──────────────┬──────────────┬──────────►
   *      │ only the worker that claimed it            │ any worker
   */
  claimRanOut: (turn: number, now: number): TaskGuard => ({
    turn,
    status: ["provisioning"],
    claimUntilBefore: now,
  }),

  claimedBy: (turn: number, claimId: string): TaskGuard => ({ turn, status: ["provisioning"], claimId }),

  running: (turn: number): TaskGuard => ({ turn, status: ["running"] }),

  /** Batches are accepted strictly in order, and none once the turn is ending. */
  readyForBatch: (turn: number, seq: number): TaskGuard => ({
    turn,
    status: ["running", "finalizing"],
    outputSeq: seq - 1,
  }),

  saidEverything: (turn: number, lastSeq: number): TaskGuard => ({
    turn,
    status: ["running"],
    outputSeq: lastSeq,
  }),

  /** The write that stop and finalize race for: the loser finds another status. */
  mayFinalize: (turn: number, now: number): TaskGuard => ({ turn, status: ["running"], deadlineAfter: now }),

  finalizing: (turn: number): TaskGuard => ({ turn, status: ["finalizing"] }),

  mayClone: (turn: number, nonce: string): TaskGuard => ({ turn, status: ["running"], cloneNonce: nonce }),

  mayStop: (turn: number): TaskGuard => ({ turn, status: ["queued", "provisioning", "running"] }),

  stopping: (turn: number): TaskGuard => ({ turn, status: ["stopping"] }),

  /** Of all processes that want to make the next attempt, one records it and makes it. */
  nextAttempt: (turn: number, status: "stopping" | "finalizing", attempts: number): TaskGuard => ({
    turn,
    status: [status],
    attempts,
  }),

  /** The task as the reaper read it: of two reapers one goes on. */
  dueAsRead: (turn: number, dueAt: number): TaskGuard => ({ turn, status: statuses, dueAt }),

  ended: (turn: number): TaskGuard => ({ turn, status: terminalStatuses }),

  any: (turn: number): TaskGuard => ({ turn, status: statuses }),

  notFollowedUp: (turn: number): TaskGuard => ({ turn, status: terminalStatuses, uncounted: turn }),
} as const;
