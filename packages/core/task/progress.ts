import type { Deps } from "../deps.ts";
import type { Task } from "./schema.ts";

export type Progress = (step: string, detail: string) => Promise<void>;

/** Writes progress events before the runner can. Numbered by time, so a later worker's events come later. */
export function createProgress({ store, clock }: Deps, task: Task): Progress {
  let seq = 0;
  let before: Promise<unknown> = Promise.resolve();
  return async (step, detail) => {
    const at = clock.now();
    seq = Math.max(seq + 1, at);
    const record = { kind: "progress", turn: task.turn, seq, at, step, detail } as const;
    const put = () => store.putRecord(task.id, record, task.expiresAt);
    // One write after another: a reader that has seen the second event never looks for the first again.
    const written = before.then(put, put);
    before = written;
    await written;
  };
}
