import { readdirSync, readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { variables } from "@concierge/protocol";
import { uptimeMs } from "./clock.ts";

const pollMs = 25;
/** A process that outlives SIGKILL for this long hangs in the kernel. */
const killTimeoutMs = 3_000;

export interface TurnProcesses {
  taskId: string;
  turn: number;
  /** The agent's process group, once it has started. */
  groupId: number | undefined;
}

/** Variables in the environment of all the turn's processes. */
export function markersOf({ taskId, turn }: { taskId: string; turn: number }): Record<string, string> {
  return { [variables.taskId]: taskId, [variables.turnNumber]: String(turn) };
}

/** Sends SIGTERM to all the turn's processes, and SIGKILL after the grace. False if some are still alive. */
export async function killTurn(target: TurnProcesses, graceMs: number): Promise<boolean> {
  signalAll(target, "SIGTERM");
  if (await allGone(target, graceMs)) return true;
  return allGone(target, killTimeoutMs, () => signalAll(target, "SIGKILL"));
}

/**
 * A process can fork while /proc is scanned, and the scan then misses the child. Require two empty scans in a row;
 * otherwise the child would survive.
 */
async function allGone(target: TurnProcesses, withinMs: number, onAlive?: () => void): Promise<boolean> {
  const until = uptimeMs() + withinMs;
  let emptyScans = 0;
  while (emptyScans < 2) {
    if (isAlive(target)) {
      emptyScans = 0;
      if (uptimeMs() >= until) return false;
      onAlive?.();
    } else {
      emptyScans++;
    }
    await sleep(pollMs);
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

/** The processes in the agent's group or with the turn's markers. Undefined without /proc. */
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
    return threads.some(
      ({ path }) => hasOurUser(path) && markers.every((marker) => hasVariable(path, marker)),
    );
  });
}

/** The main thread may have ended, which makes the process look dead, while other threads still run. */
function livingThreads(pid: number): (ProcessStat & { path: string })[] {
  const paths = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return paths.flatMap((thread) => {
    const path = `/proc/${pid}/task/${thread}`;
    const stat = unlessGone(() => readStat(path));
    return !stat || stat.state === "Z" || stat.state === "X" ? [] : [{ ...stat, path }];
  });
}

function hasOurUser(path: string): boolean {
  return unlessGone(() => statSync(path).uid) === process.getuid?.();
}

function hasVariable(path: string, variable: string): boolean {
  return unlessGone(() => readFileSync(`${path}/environ`, "utf8").split("\0").includes(variable)) ?? false;
}

/** Undefined if the process ended in the meantime or may not be read. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

interface ProcessStat {
  state: string;
  processGroup: number;
}

/** Throws if the process is gone. */
function readStat(path: string): ProcessStat {
  const line = readFileSync(`${path}/stat`, "latin1");
  // Field 2, the name, is in parentheses and may contain any character.
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", processGroup: Number(fields[2]) };
}
