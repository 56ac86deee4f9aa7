import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

// Without namespaces, a sandbox is a directory and an environment. A variable in that environment identifies processes
// that left their process group.
const sessionVariable = "SANDBOX_PROCESS_MARK";
const sweepTimeoutMs = 2_000;
const sweepPauseMs = 10;

export function plainArguments(root: string): string[] {
  return [path.join(import.meta.dirname, "init/init.mjs"), root];
}

export function sessionEnvironment(
  { sessionId, root }: { sessionId: string; root: string },
  env: Record<string, string>,
): Record<string, string> {
  return {
    ...env,
    PATH: `${path.dirname(process.execPath)}:${env.PATH ?? "/usr/bin:/bin"}`,
    HOME: path.join(root, "home/vercel-sandbox"),
    TMPDIR: path.join(root, "tmp"),
    [sessionVariable]: sessionId,
  };
}

/** Kills all processes of the session. Repeats until none is found, because a process can fork in between. */
export async function sweep(sessionId: string): Promise<void> {
  const deadline = Date.now() + sweepTimeoutMs;
  for (;;) {
    const found = pidsOf(sessionId);
    if (found.length === 0 || Date.now() > deadline) return;
    for (const pid of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has already ended.
      }
    }
    await sleep(sweepPauseMs);
  }
}

function pidsOf(sessionId: string): number[] {
  const variable = `${sessionVariable}=${sessionId}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => environmentsOf(name).some((variables) => variables.includes(variable)))
    .map(Number);
}

/** Per thread. If the first thread has ended, the process itself shows no environment. */
function environmentsOf(pid: string): string[][] {
  const threads = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return threads.map((thread) => {
    const environment = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/environ`, "utf8"));
    return environment?.split("\0") ?? [];
  });
}

/** Undefined if the process ended meanwhile or is not ours to read. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
