import { spawn } from "node:child_process";
import { constants, openSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import type { Stream } from "@concierge/protocol";

/** The agent's pipes, with both ends open and already unlinked. */
export type Pipes = Record<Stream, PipeEnds>;

export interface PipeEnds {
  readFd: number;
  writeFd: number;
}

/**
 * Makes real pipes with `mkfifo`. Node's own "pipes" are socket pairs, on which the common `echo … > /dev/stderr` fails
 * with ENXIO.
 */
export async function makePipes(runDir: string): Promise<Pipes> {
  const stdout = join(runDir, "stdout.pipe");
  const stderr = join(runDir, "stderr.pipe");
  const succeeded = await new Promise<boolean>((resolve) => {
    const child = spawn("mkfifo", ["-m", "600", stdout, stderr], { stdio: "ignore" });
    child.once("exit", (exitCode) => resolve(exitCode === 0));
    child.once("error", () => resolve(false));
  });
  if (!succeeded) throw new Error("mkfifo cannot make the agent's pipes");
  return { stdout: openPipe(stdout), stderr: openPipe(stderr) };
}

function openPipe(path: string): PipeEnds {
  // Without O_NONBLOCK, opening the read end would block until there is a writer.
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeFd = openSync(path, constants.O_WRONLY);
  unlinkSync(path);
  return { readFd, writeFd };
}
