import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RUN_FILES, type RunnerState } from "./protocol.ts";

const MIN_INTERVAL_MS = 1_000;

/** Keeps `state.json` up to date: `changed` as often as you like, written at most once a second. */
export function createStateFile(runDir: string, read: () => RunnerState): { changed(): void; close(): void } {
  const path = join(runDir, RUN_FILES.state);
  let timer: NodeJS.Timeout | undefined;
  let pending = false;
  let closed = false;

  function write(): void {
    pending = false;
    try {
      writeFileSync(`${path}.new`, JSON.stringify(read()), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch {
      // A full disk must not end the turn; the next change tries again.
    }
    timer = setTimeout(() => {
      timer = undefined;
      if (pending) write();
    }, MIN_INTERVAL_MS);
    timer.unref();
  }

  return {
    changed() {
      pending = true;
      if (timer === undefined && !closed) write();
    },
    close() {
      clearTimeout(timer);
      closed = true;
      write();
      clearTimeout(timer);
    },
  };
}
