import type { TaskGuard } from "../ports.ts";

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

  /** Two workers may both have launched a turn; the runner sees to it that one launch counts, so either may say so. */
  provisioning: (turn: number): TaskGuard => ({ turn, status: ["provisioning"] }),

  notYetRunning: (turn: number): TaskGuard => ({ turn, status: ["queued", "provisioning"] }),

  running: (turn: number): TaskGuard => ({ turn, status: ["running"] }),

  /** Batches are taken strictly in order, and none once the turn is no longer running. */
  readyForBatch: (turn: number, seq: number): TaskGuard => ({
    turn,
    status: ["running"],
    outputSeq: seq - 1,
  }),

  saidEverything: (turn: number, lastSeq: number): TaskGuard => ({
    turn,
    status: ["running"],
    outputSeq: lastSeq,
  }),
} as const;
