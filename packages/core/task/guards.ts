import type { TaskGuard } from "../ports.ts";
import { statuses, terminalStatuses } from "./schema.ts";

/** Every condition under which a task may change, by name. Each includes the turn: an older turn changes nothing. */
export const when = {
  queued: (turn: number): TaskGuard => ({ turn, status: ["queued"] }),

  /**
   *   claimed        renewed        renewed         until
   *   ───┬──────────────┬──────────────┬──────────────┬──────────►
   *      │ the worker that claimed it, alone          │ any worker
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

  /** The one write that stop and finalize race for: whoever is second finds another status. */
  mayFinalize: (turn: number, now: number): TaskGuard => ({ turn, status: ["running"], deadlineAfter: now }),

  finalizing: (turn: number): TaskGuard => ({ turn, status: ["finalizing"] }),

  mayClone: (turn: number, nonce: string): TaskGuard => ({ turn, status: ["running"], cloneNonce: nonce }),

  mayStop: (turn: number): TaskGuard => ({ turn, status: ["queued", "provisioning", "running"] }),

  stopping: (turn: number): TaskGuard => ({ turn, status: ["stopping"] }),

  ended: (turn: number): TaskGuard => ({ turn, status: terminalStatuses }),

  any: (turn: number): TaskGuard => ({ turn, status: statuses }),

  /** Whatever the task is doing by now. */
  uncounted: (turn: number, counted: number): TaskGuard => ({ turn, status: statuses, uncounted: counted }),
} as const;
