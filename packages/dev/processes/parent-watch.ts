import { procStat } from "./process-start.ts";

const pollEveryMs = 500;

/** Calls `onExit` when the npm that started us is gone. npm may run us through a shell, which outlives it. */
export function watchNpm(onExit: () => void): void {
  if (!process.env.npm_lifecycle_event) return;
  const parent = process.ppid;
  const grandparent = parentOfShell(parent);
  const timer = setInterval(() => {
    if (process.ppid === parent && parentOfShell(parent) === grandparent) return;
    clearInterval(timer);
    onExit();
  }, pollEveryMs);
  timer.unref();
}

function parentOfShell(pid: number): number | undefined {
  const stat = procStat(pid);
  return stat?.command.endsWith("sh") ? stat.parent : undefined;
}
