import { uptimeMs } from "./clock.ts";
import { TASK_MARKER, TURN_MARKER } from "./protocol.ts";

const { readdirSync, readFileSync, statSync } = process.getBuiltinModule("node:fs");
const { setTimeout: sleep } = process.getBuiltinModule("node:timers/promises");

const POLL_MS = 25;
/** A process that outlives SIGKILL this long hangs in the kernel; the proof of death is then not ours to give. */
const KILL_PATIENCE_MS = 3_000;

export interface TurnProcesses {
  taskId: string;
  turn: number;
  /** The agent's, once there is one. */
  groupId: number | undefined;
}

/** Variables that all the turn's processes have. */
export function markersOf({ taskId, turn }: { taskId: string; turn: number }): Record<string, string> {
  return { [TASK_MARKER]: taskId, [TURN_MARKER]: String(turn) };
}

/** Ends all the turn's processes: SIGTERM, SIGKILL after the grace. False where some are still there. */
export async function killTurn(target: TurnProcesses, graceMs: number): Promise<boolean> {
  signalAll(target, "SIGTERM");
  if (await allGone(target, graceMs)) return true;
  return allGone(target, KILL_PATIENCE_MS, () => signalAll(target, "SIGKILL"));
}

/** Gone means unseen twice in a row: a fork in the middle of a scan can be missed once. */
async function allGone(target: TurnProcesses, withinMs: number, onSeen?: () => void): Promise<boolean> {
  const until = uptimeMs() + withinMs;
  let unseen = 0;
  while (unseen < 2) {
    if (isAlive(target)) {
      unseen = 0;
      if (uptimeMs() >= until) return false;
      onSeen?.();
    } else {
      unseen++;
    }
    await sleep(POLL_MS);
  }
  return true;
}

function signalAll(target: TurnProcesses, signal: NodeJS.Signals): void {
  if (target.groupId !== undefined) trySignal(-target.groupId, signal);
  for (const pid of listMembers(target) ?? []) trySignal(pid, signal);
}

function isAlive(target: TurnProcesses): boolean {
  const members = listMembers(target);
  if (members !== undefined) return members.length > 0;
  return target.groupId !== undefined && trySignal(-target.groupId, 0);
}

function trySignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** Who is in the agent's group, or left it and carries the turn's marker. Undefined where there is no /proc. */
function listMembers({ taskId, turn, groupId }: TurnProcesses): number[] | undefined {
  const markers = Object.entries(markersOf({ taskId, turn })).map(([name, value]) => `${name}=${value}`);
  let names: string[];
  try {
    names = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  } catch {
    return undefined;
  }
  return names.map(Number).filter((pid) => {
    if (pid === process.pid) return false;
    const threads = livingThreads(pid);
    if (threads.some(({ processGroup }) => processGroup === groupId)) return true;
    return threads.some(({ path }) => isOurs(path) && markers.every((marker) => hasVariable(path, marker)));
  });
}

/** Each is asked: the first may have ended, and look like all of the process is dead, while others go on. */
function livingThreads(pid: number): (ProcessStat & { path: string })[] {
  const paths = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return paths.flatMap((thread) => {
    const path = `/proc/${pid}/task/${thread}`;
    const stat = unlessGone(() => readStat(path));
    return !stat || stat.state === "Z" || stat.state === "X" ? [] : [{ ...stat, path }];
  });
}

function isOurs(path: string): boolean {
  return unlessGone(() => statSync(path).uid) === process.getuid?.();
}

function hasVariable(path: string, variable: string): boolean {
  return unlessGone(() => readFileSync(`${path}/environ`, "utf8").split("\0").includes(variable)) ?? false;
}

/** Nothing where it ended while we looked, or is not ours to read. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

interface ProcessStat {
  state: string;
  processGroup: number;
}

/** Throws where there is none. */
function readStat(path: string): ProcessStat {
  const line = readFileSync(`${path}/stat`, "latin1");
  // The name, field 2, is in parentheses and may hold any character.
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", processGroup: Number(fields[2]) };
}
