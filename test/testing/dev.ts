import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../packages/dev/bin/concierge-dev.mjs", import.meta.url));

export interface Dev {
  url: string;
  apiKey: string;
  userId: string;
  pid: number;
  /** Ends it, and returns its exit code and which of its processes are still alive. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; left: string[] }>;
}

/** `npm run dev` as a process. */
export async function startDev({ dataDir, args = [] }: { dataDir: string; args?: string[] }): Promise<Dev> {
  const child = spawn(process.execPath, [program, "--port", "0", "--json", "--data-dir", dataDir, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const errors: string[] = [];
  child.stderr.on("data", (text) => errors.push(String(text)));
  const ready = await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error(`it did not start: ${errors.join("")}`))),
  ]);
  const { url, apiKey, userId } = JSON.parse(String(ready[0])) as Pick<Dev, "url" | "apiKey" | "userId">;
  return { url, apiKey, userId, pid: child.pid ?? 0, end: (signal) => end(child, signal) };
}

async function end(
  child: ChildProcess,
  signal: NodeJS.Signals,
): Promise<{ code: number | null; left: string[] }> {
  const tree = descendants(child.pid ?? 0);
  const exited = once(child, "exit");
  child.kill(signal);
  const [code] = (await exited) as [number | null];
  const deadline = Date.now() + 10_000;
  let left = tree.filter(isAlive);
  while (left.length > 0 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    left = left.filter(isAlive);
  }
  return { code, left: left.map(({ pid, command }) => `${pid} ${command}`) };
}

interface Process {
  pid: number;
  parent: number;
  start: string;
  command: string;
}

/** A process and all its descendants. */
function descendants(root: number): Process[] {
  const all = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? (look(Number(name)) ?? []) : []));
  const tree = all.filter(({ pid }) => pid === root);
  for (const { pid } of tree) tree.push(...all.filter(({ parent }) => parent === pid));
  return tree;
}

/** A pid may be reused; the start time identifies the process. */
function isAlive({ pid, start }: Process): boolean {
  return look(pid)?.start === start;
}

function look(pid: number): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z") return undefined;
    const command = readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").slice(0, 120);
    return { pid, parent: Number(fields[1]), start: fields[19] ?? "", command };
  } catch {
    return undefined;
  }
}
