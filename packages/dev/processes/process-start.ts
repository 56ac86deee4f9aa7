import { readFileSync } from "node:fs";

/**
 * Distinguishes a process from a later one with the same pid: its start time, or "alive" if /proc is not available.
 * Undefined if there is no such process.
 */
export function processStart(pid: number): string | undefined {
  const stat = procStat(pid);
  if (stat) return stat.state === "Z" ? undefined : stat.start;
  try {
    process.kill(pid, 0);
    return "alive";
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM" ? "alive" : undefined;
  }
}

export function procStat(
  pid: number,
): { command: string; state: string; parent: number; start: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command is in parentheses and can contain any character.
    const [state = "", parent = "", ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const command = text.slice(text.indexOf("(") + 1, text.lastIndexOf(")"));
    return { command, state, parent: Number(parent), start: rest[17] ?? "" };
  } catch {
    return undefined;
  }
}
