import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runFiles, type StateFile } from "@concierge/protocol";

const minIntervalMs = 1_000;
/** Delays the first write, so that the disk does not hold up the agent's first output. */
const firstWriteMs = 50;

/**
 * Keeps the state file up to date. `changed` may be called at any rate; it causes at most one write per second. Without
 * a change the file is rewritten every `refreshMs`, so that its time shows whether the runner is alive.
 */
export function createStateFile(
  runDir: string,
  refreshMs: number,
  read: () => StateFile,
): { changed(): void; close(): void } {
  const path = join(runDir, runFiles.state);
  const refresh = setInterval(changed, refreshMs).unref();
  let timer: NodeJS.Timeout | undefined;
  let pending = false;
  let closed = false;

  function changed(): void {
    pending = true;
    if (timer === undefined && !closed) schedule(firstWriteMs);
  }

  function write(): void {
    pending = false;
    try {
      writeFileSync(`${path}.new`, JSON.stringify(read()), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch {
      // A full disk must not end the turn. The next change tries again.
    }
    schedule(minIntervalMs);
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
