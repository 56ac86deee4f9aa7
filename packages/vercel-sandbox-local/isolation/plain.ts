import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

// What takes the place of a namespace where there is none: a directory, an environment of its own, and a mark
// in that environment by which the processes that escaped their group are found.
const MARK = "VERCEL_SANDBOX_LOCAL_SESSION";
const SWEEP_DEADLINE_MS = 2_000;
const SWEEP_PAUSE_MS = 10;

export function plainArguments(root: string): string[] {
  return [path.join(import.meta.dirname, "init/init.mjs"), root];
}

export function markedEnvironment(
  { sessionId, root }: { sessionId: string; root: string },
  env: Record<string, string>,
): Record<string, string> {
  return {
    ...env,
    PATH: `${path.dirname(process.execPath)}:${env.PATH ?? "/usr/bin:/bin"}`,
    HOME: path.join(root, "home/vercel-sandbox"),
    TMPDIR: path.join(root, "tmp"),
    [MARK]: sessionId,
  };
}

/** Kills whatever carries the session's mark, until nothing does: a process may fork while we look. */
export async function sweep(sessionId: string): Promise<void> {
  const deadline = Date.now() + SWEEP_DEADLINE_MS;
  for (;;) {
    const found = markedPids(sessionId);
    if (found.length === 0 || Date.now() > deadline) return;
    for (const pid of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
    await sleep(SWEEP_PAUSE_MS);
  }
}

function markedPids(sessionId: string): number[] {
  const mark = `${MARK}=${sessionId}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => environmentsOf(name).some((variables) => variables.includes(mark)))
    .map(Number);
}

/** Each thread's: where the first has ended, the process has none of its own to show. */
function environmentsOf(pid: string): string[][] {
  const threads = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return threads.map((thread) => {
    const environment = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/environ`, "utf8"));
    return environment?.split("\0") ?? [];
  });
}

/** Nothing where it ended while we looked, or is not ours to read. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
