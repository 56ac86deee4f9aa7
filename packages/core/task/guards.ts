import type { TaskGuard } from "../ports.ts";
import { statuses, terminalStatuses } from "./schema.ts";

/** Every condition under which a task may change, by name. Each includes the turn: an older turn changes nothing. */
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

  /** Batches are taken strictly in order, and none once the turn is being ended. */
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

  /** The one write that stop and finalize race for: the second finds another status. */
  mayFinalize: (turn: number, now: number): TaskGuard => ({ turn, status: ["running"], deadlineAfter: now }),

  finalizing: (turn: number): TaskGuard => ({ turn, status: ["finalizing"] }),

  mayClone: (turn: number, nonce: string): TaskGuard => ({ turn, status: ["running"], cloneNonce: nonce }),

  mayStop: (turn: number): TaskGuard => ({ turn, status: ["queued", "provisioning", "running"] }),

  stopping: (turn: number): TaskGuard => ({ turn, status: ["stopping"] }),

  /** Of all that mean to make the next attempt at an end, one records it and makes it. */
  nextAttempt: (turn: number, status: "stopping" | "finalizing", attempts: number): TaskGuard => ({
    turn,
    status: [status],
    attempts,
  }),

  /** The task as the reaper read it: of two reapers one goes on. */
  dueAsRead: (turn: number, dueAt: number): TaskGuard => ({ turn, status: statuses, dueAt }),

  ended: (turn: number): TaskGuard => ({ turn, status: terminalStatuses }),

  any: (turn: number): TaskGuard => ({ turn, status: statuses }),

  /** The turn has ended, and nobody has followed its end up yet. */
  notFollowedUp: (turn: number): TaskGuard => ({ turn, status: terminalStatuses, uncounted: turn }),
} as const;
