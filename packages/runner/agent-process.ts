import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { uptimeMs } from "./clock.ts";
import type { Pipes } from "./pipes.ts";
import type { Stream } from "./protocol.ts";

const { spawn } = process.getBuiltinModule("node:child_process");
const { closeSync, openSync, statSync } = process.getBuiltinModule("node:fs");
const net = process.getBuiltinModule("node:net");
const { setImmediate: nextRound, setTimeout: sleep } = process.getBuiltinModule("node:timers/promises");

/** Enough rounds of the event loop to read the largest pipe to its end. */
const MAX_DRAIN_ROUNDS = 32;

export interface Exit {
  exitCode: number | null;
  signal: string | null;
  /** From its spawn on. */
  agentMs: number;
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
  /** What it reads on its standard input; absent for nothing. */
  stdinPath?: string | undefined;
  pipes: Promise<Pipes>;
  pipeGraceMs: number;
  onOutput(stream: Stream, bytes: Buffer): void;
  /** Asked last before it is started. */
  mayStart(): boolean;
}

/** Throws an `Error` fit to be shown where the agent cannot be started. */
export async function startAgent(command: AgentCommand): Promise<AgentProcess> {
  // Node reports a missing directory as if the program were missing.
  if (!isDirectory(command.cwd)) throw new Error(`the working directory ${command.cwd} does not exist`);
  const { stdout, stderr } = await command.pipes;
  if (!command.mayStart()) throw new Error("the turn is over");
  const startedMs = uptimeMs();
  let child: ChildProcess;
  let stdin: number | undefined;
  try {
    if (command.stdinPath !== undefined) stdin = openSync(command.stdinPath, "r");
    child = spawn(command.file, command.args, {
      cwd: command.cwd,
      env: command.env,
      stdio: [stdin ?? "ignore", stdout.writeFd, stderr.writeFd],
      // Its own session and process group, so that all of it can be killed at once.
      detached: true,
    });
  } finally {
    closeSync(stdout.writeFd);
    closeSync(stderr.writeFd);
    if (stdin !== undefined) closeSync(stdin);
  }
  const exited = waitForExit(child, startedMs);
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

function waitForExit(child: ChildProcess, startedMs: number): Promise<Exit> {
  return new Promise((resolve, reject) => {
    child.once("exit", (exitCode, signal) =>
      resolve({ exitCode, signal, agentMs: Math.round(uptimeMs() - startedMs) }),
    );
    child.once("error", (error: NodeJS.ErrnoException) =>
      reject(new Error(`${child.spawnfile} cannot be started: ${error.code ?? error.message}`)),
    );
  });
}

interface PipeReader {
  fd: number;
  socket: Socket;
  closed: Promise<void>;
}

function read(fd: number, onBytes: (bytes: Buffer) => void): PipeReader {
  const socket = new net.Socket({ fd, readable: true, writable: false });
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
