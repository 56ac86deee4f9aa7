/** One process of the stack, of which nothing is left when the host ends, however the host ends. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const LINES_KEPT = 20;
const LAST_WORDS_MS = 500;

export interface ChildSpec {
  name: string;
  module: URL;
  /** The first message to the child. */
  init: object;
  env: Record<string, string>;
  /** Where it is run; as the host, where it does not matter. */
  cwd?: string | undefined;
  log: (line: string) => void;
  /** `killed` the moment the host is gone, or `told` and left to tidy up what it has started itself. */
  whenHostDies: "killed" | "told";
  /** How long it may take to end when it is asked to. */
  graceMs: number;
}

export interface Child {
  readonly name: string;
  readonly pid: number;
  /** The port it listens on; rejects when it ends first. */
  readonly ready: Promise<number>;
  /** How it ended, in words. */
  readonly exited: Promise<string>;
  stop(): Promise<void>;
}

export function startChild(spec: ChildSpec): Child {
  const node = [process.execPath, "--disable-warning=ExperimentalWarning", fileURLToPath(spec.module)];
  const [command = "", ...args] = spec.whenHostDies === "killed" ? [...dieWithHost(), ...node] : node;
  // A session of its own: Ctrl-C in a terminal goes to the whole foreground group, and the host decides
  // in which order its children end.
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
    // Its last words may arrive after the news of its death.
    await Promise.race([closed, sleep(LAST_WORDS_MS, undefined, { ref: false })]);
    throw new Error(`${spec.name} ${how} before it was ready`, { cause: lines.join("\n") });
  }

  async function stop(): Promise<void> {
    child.kill("SIGTERM");
    const inTime = await Promise.race([exited.then(() => true), sleep(spec.graceMs, false, { ref: false })]);
    if (!inTime) child.kill("SIGKILL");
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

/** What a process started ends with it, as it does when Lambda drops an environment. */
function killGroup(pid: number | undefined): void {
  try {
    if (pid) process.kill(-pid, "SIGKILL");
  } catch {
    // It had no others.
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
      if (lines.length > LINES_KEPT) lines.shift();
      spec.log(`[${spec.name}] ${line}`);
    });
  };
  forward(child.stdout);
  forward(child.stderr);
  return lines;
}

let wrapper: string[] | undefined;

/** The closed channel ends a child too, but not one that never gets back to its event loop. Linux only. */
function dieWithHost(): string[] {
  const command = ["setpriv", "--pdeathsig", "KILL", "--"];
  wrapper ??= spawnSync("setpriv", [...command.slice(1), "true"]).status === 0 ? command : [];
  return wrapper;
}
