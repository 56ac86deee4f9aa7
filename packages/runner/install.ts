import type { AgentAdapter, Installation } from "./agents/adapter.ts";
import { messageOf } from "./errors.ts";
import { createTail } from "./tail.ts";

const { spawn } = process.getBuiltinModule("node:child_process");
const { accessSync, constants, mkdirSync, renameSync, rmSync, statSync } =
  process.getBuiltinModule("node:fs");
const { delimiter, join } = process.getBuiltinModule("node:path");

export function findProgram(program: string, path: string | undefined): string | undefined {
  return (path ?? "")
    .split(delimiter)
    .filter((directory) => directory !== "")
    .map((directory) => join(directory, program))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    // Most are not there, and to make an error of each takes its time.
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return false;
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where an agent is installed, if it is by us. */
export function directoryOf(home: string, { program, install }: AgentAdapter): string | undefined {
  return "version" in install ? join(home, "..", directoryIn(program, install)) : undefined;
}

/** The same, from the user's own directory on. */
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

/** Why it did not come to an end, and the end of what it said. */
export interface InstallFailure {
  how: string;
  said: string;
}

/**
 * Resolves with what went wrong, undefined where nothing did. It is installed beside its place and then moved there,
 * so that one that was killed half way is not taken for an agent.
 */
export async function installAgent(options: InstallOptions): Promise<InstallFailure | undefined> {
  const { installation, directory, env, onStarted, onOutput } = options;
  const unfinished = `${directory}.unfinished`;
  const { file, args } = installation.command(unfinished);
  const said = createTail();
  try {
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const exit = await run();
    if (exit !== undefined) return { how: `${file} ${exit}`, said: said.text() };
    rmSync(directory, { recursive: true, force: true });
    renameSync(unfinished, directory);
    return undefined;
  } catch (error) {
    return { how: messageOf(error), said: "" };
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
        said.add(bytes);
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
