import type { Deps } from "../deps.ts";
import type { Task } from "./schema.ts";

export type Progress = (step: string, detail: string) => Promise<void>;

/** Tells a turn's reader what is going on before its runner can. Numbered by time, so that a later worker's come later. */
export function createProgress({ store, clock }: Deps, task: Task): Progress {
  let seq = 0;
  return async (step, detail) => {
    const at = clock.now();
    seq = Math.max(seq + 1, at);
    await store.putRecord(
      task.id,
      { kind: "progress", turn: task.turn, seq, at, step, detail },
      task.expiresAt,
    );
  };
}
