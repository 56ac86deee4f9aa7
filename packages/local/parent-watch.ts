import { procStat } from "./process-start.ts";

const EVERY_MS = 500;

/**
 * Tells when the npm that started this process is gone: `kill -9` of npm sends us nothing. npm may have put
 * a shell between, which outlives it.
 */
export function watchNpm(gone: () => void): void {
  if (!process.env.npm_lifecycle_event) return;
  const parent = process.ppid;
  const grandparent = behindShell(parent);
  const timer = setInterval(() => {
    if (process.ppid === parent && behindShell(parent) === grandparent) return;
    clearInterval(timer);
    gone();
  }, EVERY_MS);
  timer.unref();
}

function behindShell(pid: number): number | undefined {
  const stat = procStat(pid);
  return stat?.command.endsWith("sh") ? stat.parent : undefined;
}
