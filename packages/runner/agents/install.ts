import { spawn } from "node:child_process";
import { accessSync, constants, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createTail } from "../output/tail.ts";
import { messageOf } from "../process/errors.ts";
import type { AgentAdapter, Installation } from "./adapter.ts";

export function findProgram(program: string, path: string | undefined): string | undefined {
  return (path ?? "")
    .split(delimiter)
    .filter((directory) => directory !== "")
    .map((directory) => join(directory, program))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    // Most candidates do not exist, and an error for each would be slow.
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return false;
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where the runner installs an agent. Undefined if it cannot. */
export function directoryOf(home: string, { program, install }: AgentAdapter): string | undefined {
  return "version" in install ? join(home, "..", directoryIn(program, install)) : undefined;
}

/** The same, relative to the user's home. */
export function directoryIn(program: string, { version }: Installation): string {
  return `.concierge/agents/${program}-${version}`;
}

export interface InstallOptions {
  installation: Installation;
  directory: string;
  env: NodeJS.ProcessEnv;
  onStarted(pid: number): void;
  onOutput(bytes: Buffer): void;
}

/** `log` is the end of the installer's output. */
export interface InstallFailure {
  reason: string;
  log: string;
}

/**
 * Resolves with undefined on success. The installer can be killed at any point, so the agent is installed into a
 * temporary directory and then renamed; otherwise a later turn would use an incomplete installation.
 */
export async function installAgent(options: InstallOptions): Promise<InstallFailure | undefined> {
  const { installation, directory, env, onStarted, onOutput } = options;
  const unfinished = `${directory}.unfinished`;
  const { file, args } = installation.command(unfinished);
  const log = createTail();
  try {
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const exit = await run();
    if (exit !== undefined) return { reason: `${file} ${exit}`, log: log.text() };
    rmSync(directory, { recursive: true, force: true });
    renameSync(unfinished, directory);
    return undefined;
  } catch (error) {
    return { reason: messageOf(error), log: "" };
  }

  function run(): Promise<string | undefined> {
    const child = spawn(file, args, {
      env,
      cwd: unfinished,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    if (child.pid !== undefined) onStarted(child.pid);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes: Buffer) => {
        log.add(bytes);
        onOutput(bytes);
      });
    }
    return new Promise((resolve, reject) => {
      child.once("error", (error: NodeJS.ErrnoException) =>
        reject(new Error(`${file} cannot be started: ${error.code ?? error.message}`)),
      );
      child.once("close", (exitCode, signal) =>
        resolve(exitCode === 0 ? undefined : signal ? `was ended by ${signal}` : `exited with ${exitCode}`),
      );
    });
  }
}
