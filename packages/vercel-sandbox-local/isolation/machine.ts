import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import type { Readable } from "node:stream";
import { z } from "zod";
import type { GatewayPorts } from "../network/gateway.ts";
import { initCommand, namespaceArguments, type ProcessLimits } from "./bwrap.ts";
import { encodeFrame, type Frame, readFrames } from "./frames.ts";
import { plainArguments, sessionEnvironment, sweep } from "./plain.ts";

export type Isolation = "bwrap" | "none";
export type OutputStream = "stdout" | "stderr";

export interface CommandEvents {
  onOutput(stream: OutputStream, bytes: Buffer): void;
  onExit(code: number): void;
}

export interface CommandSpec {
  command: string;
  cmd: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
}

/** The start of a file, the next piece of it, or a directory. Parent directories are created. */
export interface Piece {
  path: string;
  kind: "file" | "rest" | "directory";
  mode: number;
  bytes: Uint8Array;
}

/** The processes of one session in one namespace, and the connection to their init. */
export interface Machine {
  /** Resolves when init accepted it. A program that cannot start still reports an exit. */
  spawn(spec: CommandSpec, events: CommandEvents): Promise<void>;
  signal(command: string, signal: number): Promise<void>;
  mkdir(path: string, recursive: boolean): Promise<void>;
  /** Writes in order and stops at the first failure. */
  write(pieces: Piece[]): Promise<void>;
  open(path: string): Promise<number>;
  /** Returns less than `length` only at the end of the file. */
  read(handle: number, length: number): Promise<Buffer>;
  close(handle: number): Promise<void>;
  /** Makes init connect this port to the gateway. */
  dial(port: number, dialId: string): Promise<void>;
  /** Makes init pass on the ports that the network has by now. Each command does this too. */
  forwardNewPorts(): void;
  /** Kills all processes. Resolves when none is left. */
  kill(): Promise<void>;
  /** Resolves when init is gone, for any reason. */
  readonly exited: Promise<void>;
}

/** A request that failed in init, with its errno. */
export class MachineError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export interface MachineOptions {
  isolation: Isolation;
  sessionId: string;
  root: string;
  etc: string;
  /** The file with the filter for system calls, if there is one for this architecture. */
  seccomp?: string | undefined;
  limits: ProcessLimits;
  /** Only with isolation. */
  network?: MachineNetwork | undefined;
}

export interface MachineNetwork {
  /** The gateway's directory. */
  directory: string;
  /** The ports that lead to the gateway at this moment, beside the standard ones. */
  ports(): GatewayPorts;
}

const infoFd = 3;
const argumentsFd = 4;
const seccompFd = 5;
const stderrTailChars = 2_000;
const machineGone = "EPIPE";

const Incoming = z.union([
  z.object({ event: z.literal("ready") }),
  z.object({ event: z.literal("output"), command: z.string(), stream: z.enum(["stdout", "stderr"]) }),
  z.object({ event: z.literal("exit"), command: z.string(), code: z.number() }),
  z.object({ reply: z.number(), ok: z.literal(true), handle: z.number().optional() }),
  z.object({ reply: z.number(), ok: z.literal(false), code: z.string(), message: z.string() }),
]);

interface Reply {
  handle?: number | undefined;
  body: Buffer;
}

export async function startMachine(options: MachineOptions): Promise<Machine> {
  const process = launch(options);
  const commands = new Map<string, CommandEvents>();
  const pending = new Map<number, PromiseWithResolvers<Reply>>();
  const forwardedPorts = { loopback: new Set<number>(), remote: new Set<number>() };
  const ready = Promise.withResolvers<void>();
  let nextId = 1;
  let hasEnded = false;

  const gone = once(process.child, "exit").then(() => undefined);
  const exited = Promise.all([gone, readFrames(process.output, receive)]).then(end, end);

  function receive({ header, body }: Frame): void {
    const message = Incoming.parse(header);
    if ("reply" in message) {
      settle(message, body);
      return;
    }
    switch (message.event) {
      case "ready":
        ready.resolve();
        break;
      case "output":
        commands.get(message.command)?.onOutput(message.stream, body);
        break;
      case "exit":
        commands.get(message.command)?.onExit(message.code);
        commands.delete(message.command);
        break;
    }
  }

  function settle(message: Extract<z.infer<typeof Incoming>, { reply: number }>, body: Buffer): void {
    const waiting = pending.get(message.reply);
    pending.delete(message.reply);
    if (message.ok) waiting?.resolve({ handle: message.handle, body });
    else waiting?.reject(new MachineError(message.code, message.message));
  }

  async function end(): Promise<void> {
    hasEnded = true;
    await killAll();
    const error = new MachineError(
      machineGone,
      `the sandbox's processes have ended ${process.stderrTail()}`.trim(),
    );
    ready.reject(error);
    for (const waiting of pending.values()) waiting.reject(error);
    pending.clear();
  }

  async function killAll(): Promise<void> {
    if (process.child.exitCode === null && process.child.signalCode === null) {
      await process.killNamespace();
      await gone;
    }
    if (options.isolation === "none") await sweep(options.sessionId);
  }

  async function request(header: object, body?: Uint8Array): Promise<Reply> {
    if (hasEnded) throw new MachineError(machineGone, "the sandbox's processes have ended");
    const id = nextId++;
    const waiting = Promise.withResolvers<Reply>();
    pending.set(id, waiting);
    process.input.write(encodeFrame({ id, ...header }, body));
    return waiting.promise;
  }

  /** Before each command: a service of the host may have started since the last one. Init reads requests in order. */
  function forwardNewPorts(): void {
    const ports = options.network?.ports();
    if (!ports) return;
    for (const where of ["loopback", "remote"] as const) {
      const known = forwardedPorts[where];
      const added = ports[where].filter((port) => !known.has(port));
      if (added.length === 0) continue;
      for (const port of added) known.add(port);
      request({ op: "forwardPorts", where, ports: added }).catch(() => {});
    }
  }

  // `end` may reject this before it is awaited. An unhandled rejection would end the API.
  ready.promise.catch(() => {});
  await ready.promise;

  return {
    exited,
    async spawn(spec, events) {
      commands.set(spec.command, events);
      const env = options.isolation === "none" ? sessionEnvironment(options, spec.env) : spec.env;
      forwardNewPorts();
      try {
        await request({ op: "spawn", ...spec, env });
      } catch (error) {
        commands.delete(spec.command);
        throw error;
      }
    },
    async signal(command, signal) {
      await request({ op: "signal", command, signal });
    },
    async mkdir(path, recursive) {
      await request({ op: "mkdir", path, recursive });
    },
    async write(pieces) {
      const entries = pieces.map(({ bytes, ...entry }) => ({ ...entry, length: bytes.length }));
      await request({ op: "write", entries }, Buffer.concat(pieces.map(({ bytes }) => bytes)));
    },
    async open(path) {
      const { handle } = await request({ op: "open", path });
      if (handle === undefined) throw new MachineError("EIO", "no handle in the reply");
      return handle;
    },
    async read(handle, length) {
      return (await request({ op: "read", handle, length })).body;
    },
    async close(handle) {
      await request({ op: "close", handle });
    },
    async dial(port, dialId) {
      await request({ op: "dial", port, dialId });
    },
    forwardNewPorts,
    async kill() {
      await killAll();
      await exited;
    },
  };
}

interface Launched {
  child: ChildProcess;
  input: NodeJS.WritableStream;
  output: Readable;
  killNamespace(): Promise<void>;
  stderrTail(): string;
}

function launch(options: MachineOptions): Launched {
  const child = options.isolation === "bwrap" ? launchIsolated(options) : launchPlain(options);
  const { stdin, stdout, stderr } = child;
  if (!stdin || !stdout || !stderr) throw new Error("a process was started without pipes");
  // A write to a machine that just died fails. `exited` reports it.
  stdin.on("error", () => {});
  child.on("error", () => {});
  let tail = "";
  stderr.setEncoding("utf8").on("data", (text: string) => {
    tail = (tail + text).slice(-stderrTailChars);
  });
  const info = child.stdio[infoFd];
  const firstPid = info && "setEncoding" in info ? readFirstPid(info) : Promise.resolve(undefined);
  return {
    child,
    input: stdin,
    output: stdout,
    stderrTail: () => tail.trim(),
    // Kill the namespace's first process, not bwrap. The kernel reaps it after all others in the namespace, and bwrap
    // exits after that, so bwrap's exit proves that no process is left.
    async killNamespace() {
      const pid = (await firstPid) ?? child.pid;
      if (pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        child.kill("SIGKILL");
      }
    },
  };
}

function launchIsolated({ sessionId, root, etc, seccomp, limits, network }: MachineOptions): ChildProcess {
  if (!network) throw new Error("an isolated sandbox needs a network");
  const hostname = sessionId.replaceAll("_", "-");
  const filter = seccomp === undefined ? undefined : openSync(seccomp, "r");
  const fds = ["--args", String(argumentsFd), ...(filter ? ["--seccomp", String(seccompFd)] : [])];
  const child = spawn("bwrap", [...fds, ...initCommand(limits)], {
    // Only for init. Commands have their own environment.
    env: {
      PATH: "/usr/bin:/bin",
      UV_THREADPOOL_SIZE: "2",
      SANDBOX_MAX_PROCESSES: String(limits.processes),
      SANDBOX_MAX_MEMORY_BYTES: String(limits.memoryBytes),
    },
    stdio: ["pipe", "pipe", "pipe", "pipe", "pipe", ...(filter ? [filter] : [])],
  });
  if (filter) closeSync(filter);
  // Through a pipe: bwrap's command line is readable inside, and these contain paths of the host.
  const pipe = child.stdio[argumentsFd];
  if (pipe && "write" in pipe) {
    pipe.on("error", () => {});
    pipe.end(
      namespaceArguments({ root, etc, network: network.directory }, hostname, infoFd)
        .map((arg) => `${arg}\0`)
        .join(""),
    );
  }
  return child;
}

function launchPlain({ sessionId, root }: MachineOptions): ChildProcess {
  return spawn(process.execPath, plainArguments(root), {
    cwd: root,
    detached: true,
    env: sessionEnvironment({ sessionId, root }, {}),
    stdio: ["pipe", "pipe", "pipe"],
  });
}

async function readFirstPid(info: Readable): Promise<number | undefined> {
  let text = "";
  for await (const chunk of info.setEncoding("utf8")) text += chunk;
  const parsed = z.object({ "child-pid": z.number() }).safeParse(JSON.parse(text || "{}"));
  return parsed.success ? parsed.data["child-pid"] : undefined;
}
