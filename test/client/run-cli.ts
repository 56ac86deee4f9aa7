import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export const cli = fileURLToPath(new URL("../../packages/cli/bin/concierge.mjs", import.meta.url));

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  child: ChildProcess;
  /** What it has printed so far. */
  printed: Ran;
  done: Promise<Ran>;
}

/** `concierge` in a pipe, with only this environment. */
export function startCli(args: string[], env: Record<string, string>, input?: string): Running {
  const child = spawn(process.execPath, [cli, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const printed: Ran = { code: null, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    printed.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    printed.stderr += text;
  });
  child.stdin.end(input ?? "");
  const done = once(child, "close").then(([code]) => Object.assign(printed, { code: code as number | null }));
  return { child, printed, done };
}
