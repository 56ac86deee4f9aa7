import { RUN_FILES, type RunnerState } from "./protocol.ts";

const { renameSync, writeFileSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

const MIN_INTERVAL_MS = 1_000;
/** What has changed the state, as the agent's first word, is not to wait for the disk. */
const SOON_MS = 50;

/**
 * Keeps `state.json` up to date: `changed` as often as you like, written soon, and at most once a second. Without a
 * change it is written again after `refreshMs`, so that its time says whether the runner still runs.
 */
export function createStateFile(
  runDir: string,
  refreshMs: number,
  read: () => RunnerState,
): { changed(): void; close(): void } {
  const path = join(runDir, RUN_FILES.state);
  const refresh = setInterval(changed, refreshMs).unref();
  let timer: NodeJS.Timeout | undefined;
  let pending = false;
  let closed = false;

  function changed(): void {
    pending = true;
    if (timer === undefined && !closed) schedule(SOON_MS);
  }

  function write(): void {
    pending = false;
    try {
      writeFileSync(`${path}.new`, JSON.stringify(read()), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch {
      // A full disk must not end the turn; the next change tries again.
    }
    schedule(MIN_INTERVAL_MS);
  }

  function schedule(ms: number): void {
    timer = setTimeout(() => {
      timer = undefined;
      if (pending) write();
    }, ms);
    timer.unref();
  }

  return {
    changed,
    close() {
      clearInterval(refresh);
      clearTimeout(timer);
      closed = true;
      write();
      clearTimeout(timer);
    },
  };
}
