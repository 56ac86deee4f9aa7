import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { z } from "zod";
import { INIT_COMMAND, namespaceArguments } from "./bwrap.ts";
import { encodeFrame, type Frame, readFrames } from "./frames.ts";
import { markedEnvironment, plainArguments, sweep } from "./plain.ts";

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

/** A file, the next piece of one, or a directory, to be made with all it lies in. */
export interface Piece {
  path: string;
  kind: "file" | "rest" | "directory";
  mode: number;
  bytes: Uint8Array;
}

/** The processes of one session, all in one namespace, and the line to the init among them. */
export interface Machine {
  /** Resolves when init is about to start it. A program that cannot be started has an exit all the same. */
  spawn(spec: CommandSpec, events: CommandEvents): Promise<void>;
  signal(command: string, signal: number): Promise<void>;
  mkdir(path: string, recursive: boolean): Promise<void>;
  /** In this order, up to the first that cannot be written. */
  write(pieces: Piece[]): Promise<void>;
  open(path: string): Promise<number>;
  /** Less than `length` at the end of the file alone. */
  read(handle: number, length: number): Promise<Buffer>;
  close(handle: number): Promise<void>;
  /** Resolves when no process of the session is left. */
  kill(): Promise<void>;
  /** Resolves when init is gone, whoever ended it. */
  readonly exited: Promise<void>;
}

/** An order that init refused, with the errno it met. */
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
}

const INFO_FD = 3;
const ARGUMENTS_FD = 4;
const STDERR_TAIL_CHARS = 2_000;
const MACHINE_GONE = "EPIPE";

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
  const ready = Promise.withResolvers<void>();
  let nextId = 1;
  let over = false;

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
    over = true;
    await killAll();
    const error = new MachineError(
      MACHINE_GONE,
      `the sandbox's processes are gone ${process.stderrTail()}`.trim(),
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
    if (over) throw new MachineError(MACHINE_GONE, "the sandbox's processes are gone");
    const id = nextId++;
    const waiting = Promise.withResolvers<Reply>();
    pending.set(id, waiting);
    process.input.write(encodeFrame({ id, ...header }, body));
    return waiting.promise;
  }

  // A failed start is told through `ready`; a rejection nobody awaits must not end the API.
  ready.promise.catch(() => {});
  await ready.promise;

  return {
    exited,
    async spawn(spec, events) {
      commands.set(spec.command, events);
      const env = options.isolation === "none" ? markedEnvironment(options, spec.env) : spec.env;
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
      if (handle === undefined) throw new MachineError("EIO", "no handle in the answer");
      return handle;
    },
    async read(handle, length) {
      return (await request({ op: "read", handle, length })).body;
    },
    async close(handle) {
      await request({ op: "close", handle });
    },
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
  // Writing to a machine that just died is no error of the API's: `exited` tells of it.
  stdin.on("error", () => {});
  child.on("error", () => {});
  let tail = "";
  stderr.setEncoding("utf8").on("data", (text: string) => {
    tail = (tail + text).slice(-STDERR_TAIL_CHARS);
  });
  const info = child.stdio[INFO_FD];
  const firstPid = info && "setEncoding" in info ? readFirstPid(info) : Promise.resolve(undefined);
  return {
    child,
    input: stdin,
    output: stdout,
    stderrTail: () => tail.trim(),
    // bwrap reaps the namespace's first process, which the kernel lets go only after all others: killing that
    // one, and not bwrap, makes bwrap's exit mean that nothing is left.
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

function launchIsolated({ sessionId, root, etc }: MachineOptions): ChildProcess {
  const hostname = sessionId.replaceAll("_", "-");
  const child = spawn("bwrap", ["--args", String(ARGUMENTS_FD), ...INIT_COMMAND], {
    // Init starts no thread it does not need; commands get an environment of their own.
    env: { PATH: "/usr/bin:/bin", UV_THREADPOOL_SIZE: "2" },
    stdio: ["pipe", "pipe", "pipe", "pipe", "pipe"],
  });
  // Through a pipe, for bwrap's command line can be read inside, and these are paths of the host.
  const pipe = child.stdio[ARGUMENTS_FD];
  if (pipe && "write" in pipe) {
    pipe.on("error", () => {});
    pipe.end(
      namespaceArguments({ root, etc }, hostname, INFO_FD)
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
    env: markedEnvironment({ sessionId, root }, {}),
    stdio: ["pipe", "pipe", "pipe"],
  });
}

async function readFirstPid(info: Readable): Promise<number | undefined> {
  let text = "";
  for await (const chunk of info.setEncoding("utf8")) text += chunk;
  const parsed = z.object({ "child-pid": z.number() }).safeParse(JSON.parse(text || "{}"));
  return parsed.success ? parsed.data["child-pid"] : undefined;
}
