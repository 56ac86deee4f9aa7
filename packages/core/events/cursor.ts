import { AppError } from "../errors.ts";
import type { RecordPosition } from "../ports.ts";

/**
 * A reader's position: how many phases and notices it has seen, and the last record, to the chunk. Phases and records
 * are written by different processes, so a single number would need its own write to order both.
 */
export interface Cursor {
  phases: number;
  notices: number;
  record: RecordPosition;
  /** How many chunks of that record were seen. */
  chunks: number;
}

export const beginning: Cursor = {
  phases: 0,
  notices: 0,
  record: { turn: 0, kind: "progress", seq: 0 },
  chunks: 0,
};

const letters = { progress: "p", output: "o" } as const;
const pattern = /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})([po])(\d{1,15})\.(\d{1,9})$/;

export function formatCursor({ phases, notices, record, chunks }: Cursor): string {
  return `${phases}.${notices}.${record.turn}${letters[record.kind]}${record.seq}.${chunks}`;
}

export function parseCursor(text: string | undefined): Cursor {
  if (text === undefined || text === "") return beginning;
  const match = pattern.exec(text);
  if (!match) throw new AppError("invalid_cursor", "The cursor was not returned by this list.");
  const [, phases, notices, turn, letter, seq, chunks] = match;
  return {
    phases: Number(phases),
    notices: Number(notices),
    record: { turn: Number(turn), kind: letter === "p" ? "progress" : "output", seq: Number(seq) },
    chunks: Number(chunks),
  };
}
