import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, statSync } from "node:fs";
import { Socket } from "node:net";
import { setImmediate as nextRound, setTimeout as sleep } from "node:timers/promises";
import type { Stream } from "@concierge/protocol";
import { uptimeMs } from "./clock.ts";
import type { Pipes } from "./pipes.ts";

/** Enough rounds of the event loop to empty the largest pipe. */
const drainRoundsMax = 32;

export interface Exit {
  exitCode: number | null;
  signal: string | null;
  agentMs: number;
}

export interface AgentProcess {
  /** Also the id of its process group. */
  pid: number;
  exited: Promise<Exit>;
  /** Resolves when the agent has exited and its output is read. Its background processes may still run. */
  drained: Promise<void>;
  pause(): void;
  resume(): void;
}

export interface AgentCommand {
  file: string;
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Default: no standard input. */
  stdinPath?: string | undefined;
  pipes: Promise<Pipes>;
  pipeGraceMs: number;
  onOutput(stream: Stream, bytes: Buffer): void;
  /** Checked just before the spawn. */
  mayStart(): boolean;
}

/** Throws an `Error` with a message for the user if the agent cannot be started. */
export async function startAgent(command: AgentCommand): Promise<AgentProcess> {
  // Node would report a missing directory as a missing program.
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
      // In its own process group, which can be killed as a whole.
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

  /** For pipes that a background process keeps open: reads what was written before the exit. */
  async function drainHeldPipes(): Promise<void> {
    await sleep(command.pipeGraceMs);
    for (let round = 0; round < drainRoundsMax; round++) {
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
  const socket = new Socket({ fd, readable: true, writable: false });
  socket.on("data", onBytes);
  // "close" follows an error.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  return { fd, socket, closed };
}

/**
 * A background process may outlive the runner. Without a reader for its pipe, its next write would kill it by SIGPIPE.
 * Start one that runs as long as the process and carries the turn's markers.
 */
function handOver({ fd, socket }: PipeReader, env: NodeJS.ProcessEnv): void {
  if (socket.destroyed) return;
  const reader = spawn("cat", [], { stdio: [fd, "ignore", "ignore"], env, detached: true });
  reader.on("error", () => {});
  reader.unref();
  socket.destroy();
}
