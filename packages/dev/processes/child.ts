/** Starts one process of the stack. It ends with the host, even if the host is killed. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const keptLines = 20;
const lastOutputMs = 500;

export interface ChildSpec {
  name: string;
  module: URL;
  /** Sent to the child as its first message. */
  init: object;
  env: Record<string, string>;
  /** By default the host's. */
  cwd?: string | undefined;
  log: (line: string) => void;
  /** `kill` ends it at once; `notify` closes its channel and lets it clean up. */
  whenHostDies: "kill" | "notify";
  /** Time between SIGTERM and SIGKILL. */
  graceMs: number;
}

export interface Child {
  readonly name: string;
  readonly pid: number;
  /** The port it listens on. Rejects if it exits first. */
  readonly ready: Promise<number>;
  /** How it ended, for a message. */
  readonly exited: Promise<string>;
  stop(): Promise<void>;
}

export function startChild(spec: ChildSpec): Child {
  const node = [process.execPath, "--disable-warning=ExperimentalWarning", fileURLToPath(spec.module)];
  const [command = "", ...args] = spec.whenHostDies === "kill" ? [...dieWithHost(), ...node] : node;
  // `detached` starts a new session. Ctrl-C goes to the whole foreground group, but the host must decide in which order
  // its children end.
  const child = spawn(command, args, {
    env: spec.env,
    cwd: spec.cwd,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const lines = forwardLines(child, spec);
  const closed = new Promise((resolve) => child.once("close", resolve));
  const exited = exit(child);
  const ready = Promise.race([firstMessage(child), exited.then(refuse)]);
  ready.catch(() => {});
  child.on("error", () => {});
  child.send(spec.init, () => {});

  return { name: spec.name, pid: child.pid ?? 0, ready, exited, stop };

  async function refuse(how: string): Promise<never> {
    // Its last output may arrive after its exit.
    await Promise.race([closed, sleep(lastOutputMs, undefined, { ref: false })]);
    throw new Error(`${spec.name} ${how} before it was ready`, { cause: lines.join("\n") });
  }

  async function stop(): Promise<void> {
    child.kill("SIGTERM");
    const exitedInTime = await Promise.race([
      exited.then(() => true),
      sleep(spec.graceMs, false, { ref: false }),
    ]);
    if (!exitedInTime) child.kill("SIGKILL");
    await exited;
  }
}

function exit(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(`could not be run (${error.message})`));
    child.once("exit", (code, signal) => {
      killGroup(child.pid);
      resolve(signal ? `was ended by ${signal}` : `exited with ${code}`);
    });
  });
}

/** Processes that a function started end with it, as on Lambda. */
function killGroup(pid: number | undefined): void {
  try {
    if (pid) process.kill(-pid, "SIGKILL");
  } catch {
    // No process is left in the group.
  }
}

function firstMessage(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once("message", (message) => resolve((message as { port: number }).port));
  });
}

function forwardLines(child: ChildProcess, spec: ChildSpec): string[] {
  const lines: string[] = [];
  const forward = (stream: Readable | null) => {
    if (!stream) return;
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      if (lines.length > keptLines) lines.shift();
      spec.log(`[${spec.name}] ${line}`);
    });
  };
  forward(child.stdout);
  forward(child.stderr);
  return lines;
}

let wrapper: string[] | undefined;

/** A closed channel does not end a child that blocks its event loop; the kernel does. Linux only. */
function dieWithHost(): string[] {
  const command = ["setpriv", "--pdeathsig", "KILL", "--"];
  wrapper ??= spawnSync("setpriv", [...command.slice(1), "true"]).status === 0 ? command : [];
  return wrapper;
}
