import type { Stream } from "./protocol.ts";

const { spawn } = process.getBuiltinModule("node:child_process");
const { constants, openSync, unlinkSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

/** The agent's, both ends open. They have no name. */
export type Pipes = Record<Stream, PipeEnds>;

export interface PipeEnds {
  readFd: number;
  writeFd: number;
}

/**
 * Real pipes by way of FIFOs, which Node cannot make itself. Its own "pipes" are socket pairs, and on those
 * `echo … > /dev/stderr`, common in scripts, fails with ENXIO.
 */
export async function makePipes(runDir: string): Promise<Pipes> {
  const stdout = join(runDir, "stdout.pipe");
  const stderr = join(runDir, "stderr.pipe");
  const made = await new Promise<boolean>((resolve) => {
    const child = spawn("mkfifo", ["-m", "600", stdout, stderr], { stdio: "ignore" });
    child.once("exit", (exitCode) => resolve(exitCode === 0));
    child.once("error", () => resolve(false));
  });
  if (!made) throw new Error("mkfifo cannot make the agent's pipes");
  return { stdout: openPipe(stdout), stderr: openPipe(stderr) };
}

function openPipe(path: string): PipeEnds {
  // Without O_NONBLOCK this would wait for a writer, and the writer's open waits for a reader.
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeFd = openSync(path, constants.O_WRONLY);
  unlinkSync(path);
  return { readFd, writeFd };
}
