import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, constants, openSync, statSync, unlinkSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { setImmediate as nextRound, setTimeout as sleep } from "node:timers/promises";
import type { Stream } from "./protocol.ts";

/** Enough rounds of the event loop to read the largest pipe to its end. */
const MAX_DRAIN_ROUNDS = 32;

export interface Exit {
  exitCode: number | null;
  signal: string | null;
}

export interface AgentProcess {
  /** Also its process group. */
  pid: number;
  exited: Promise<Exit>;
  /** It has exited and all it wrote has been read; what it left in the background may go on. */
  drained: Promise<void>;
  pause(): void;
  resume(): void;
}

export interface AgentCommand {
  file: string;
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  runDir: string;
  pipeGraceMs: number;
  onOutput(stream: Stream, bytes: Buffer): void;
}

/** Throws an `Error` fit to be shown where the agent cannot be started. */
export async function startAgent(command: AgentCommand): Promise<AgentProcess> {
  // Node reports a missing directory as if the program were missing.
  if (!isDirectory(command.cwd)) throw new Error(`the working directory ${command.cwd} does not exist`);
  const [stdout, stderr] = openPipes(command.runDir);
  let child: ChildProcess;
  try {
    child = spawn(command.file, command.args, {
      cwd: command.cwd,
      env: command.env,
      stdio: ["ignore", stdout.writeFd, stderr.writeFd],
      // Its own session and process group, so that all of it can be killed at once.
      detached: true,
    });
  } finally {
    closeSync(stdout.writeFd);
    closeSync(stderr.writeFd);
  }
  const exited = waitForExit(child);
  const pid = child.pid;
  if (pid === undefined) {
    closeSync(stdout.readFd);
    closeSync(stderr.readFd);
    await exited;
    throw new Error(`${command.file} did not start`);
  }

  const readers = [
    read(stdout.readFd, (bytes) => command.onOutput("stdout", bytes)),
    read(stderr.readFd, (bytes) => command.onOutput("stderr", bytes)),
  ];
  const closed = Promise.all(readers.map((reader) => reader.closed));
  let paused = false;
  let onResume = (): void => {};

  async function drain(): Promise<void> {
    await exited;
    await Promise.race([closed, drainHeldPipes()]);
    for (const reader of readers) handOver(reader, command.env);
  }

  /** A background process keeps the pipes open: read what was written before the exit. */
  async function drainHeldPipes(): Promise<void> {
    await sleep(command.pipeGraceMs);
    for (let round = 0; round < MAX_DRAIN_ROUNDS; round++) {
      while (paused) {
        await new Promise<void>((resolve) => {
          onResume = resolve;
        });
      }
      const before = totalBytesRead();
      await nextRound();
      await nextRound();
      if (!paused && totalBytesRead() === before) return;
    }
  }

  function totalBytesRead(): number {
    return readers.reduce((sum, { socket }) => sum + socket.bytesRead, 0);
  }

  return {
    pid,
    exited,
    drained: drain(),
    pause() {
      paused = true;
      for (const { socket } of readers) socket.pause();
    },
    resume() {
      paused = false;
      for (const { socket } of readers) socket.resume();
      onResume();
    },
  };
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function waitForExit(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve, reject) => {
    child.once("exit", (exitCode, signal) => resolve({ exitCode, signal }));
    child.once("error", (error: NodeJS.ErrnoException) =>
      reject(new Error(`${child.spawnfile} cannot be started: ${error.code ?? error.message}`)),
    );
  });
}

interface PipeEnds {
  readFd: number;
  writeFd: number;
}

/**
 * Real pipes by way of FIFOs, which Node cannot make itself. Its own "pipes" are socket pairs, and on those
 * `echo … > /dev/stderr`, common in scripts, fails with ENXIO.
 */
function openPipes(runDir: string): [PipeEnds, PipeEnds] {
  const paths = [join(runDir, "stdout.pipe"), join(runDir, "stderr.pipe")] as const;
  const made = spawnSync("mkfifo", ["-m", "600", ...paths], { stdio: "ignore" });
  if (made.status !== 0) throw new Error("mkfifo cannot make the agent's pipes");
  return [openPipe(paths[0]), openPipe(paths[1])];
}

function openPipe(path: string): PipeEnds {
  // Without O_NONBLOCK this would wait for a writer, and the writer's open waits for a reader.
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeFd = openSync(path, constants.O_WRONLY);
  unlinkSync(path);
  return { readFd, writeFd };
}

interface PipeReader {
  fd: number;
  socket: Socket;
  closed: Promise<void>;
}

function read(fd: number, onBytes: (bytes: Buffer) => void): PipeReader {
  const socket = new Socket({ fd, readable: true, writable: false });
  socket.on("data", onBytes);
  // An error on a pipe ends it like its end does; "close" follows both.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  return { fd, socket, closed };
}

/**
 * A background process that still writes to a pipe nobody reads is killed by SIGPIPE. One the turn leaves alone gets
 * a reader that lives as long as it does, and that belongs to the turn as it does.
 */
function handOver({ fd, socket }: PipeReader, env: NodeJS.ProcessEnv): void {
  if (socket.destroyed) return;
  const reader = spawn("cat", [], { stdio: [fd, "ignore", "ignore"], env, detached: true });
  reader.on("error", () => {});
  reader.unref();
  socket.destroy();
}
