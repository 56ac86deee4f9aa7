import type { Deps } from "../deps.ts";
import type { Task } from "./schema.ts";

export type Progress = (step: string, detail: string) => Promise<void>;

/** Tells a turn's reader what is going on before its runner can. Numbered by time, so that a later worker's come later. */
export function createProgress({ store, clock }: Deps, task: Task): Progress {
  let seq = 0;
  let before: Promise<unknown> = Promise.resolve();
  return async (step, detail) => {
    const at = clock.now();
    seq = Math.max(seq + 1, at);
    const record = { kind: "progress", turn: task.turn, seq, at, step, detail } as const;
    const put = () => store.putRecord(task.id, record, task.expiresAt);
    // One after the other, whoever tells them at once: a reader who has the second never looks for the first again.
    const told = before.then(put, put);
    before = told;
    await told;
  };
}
