// The first process of a sandbox. It runs inside the namespace, takes orders from the API on stdin, and
// answers on stdout; `../machine.ts` is the other end and `../frames.ts` describes the frames.
// Plain JavaScript with no imports but Node's own: stripping types would double the start of every sandbox.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { lstat, mkdir, open, realpath, stat } from "node:fs/promises";
import { constants as osConstants } from "node:os";
import path from "node:path";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";

const DRAIN_IDLE_MS = 30;
const DRAIN_ROUNDS = 40;
// More than a pipe can hold: once this much came after the exit, all that was written before it has come.
const DRAIN_BYTES = 1 << 20;
const EXIT_NOT_FOUND = 127;
const EXIT_NOT_EXECUTABLE = 126;

// Empty in a namespace, where paths are what they say. Without one, the directory that stands for "/".
const root = process.argv[2] ?? "";

const running = new Map();
const handles = new Map();
const sources = new Set();
let nextHandle = 1;
let blocked = false;

const operations = { spawn: start, signal, mkdir: makeDirectory, write, open: openForRead, read, close };

// A sandboxed `pkill node` or `kill -TERM -1` is not meant for the sandbox itself.
process.title = "sandbox-init";
for (const name of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE"]) {
  process.on(name, () => {});
}

process.stdout.on("drain", () => {
  blocked = false;
  for (const source of sources) source.resume();
});
process.stdout.on("error", shutDown);
process.stdin.on("close", shutDown);
process.stdin.on("data", frameReader(handle));
send({ event: "ready" });

async function handle(header, body) {
  try {
    const result = (await operations[header.op](header, body)) ?? {};
    send({ reply: header.id, ok: true, ...result.fields }, result.body);
  } catch (error) {
    send({ reply: header.id, ok: false, code: error.code ?? "EIO", message: error.message });
  }
}

async function start({ command, cmd, args, cwd, env }) {
  const directory = await inside(cwd);
  if (!(await stat(directory)).isDirectory()) throw coded("ENOTDIR", `not a directory: ${cwd}`);
  const child = spawn(cmd, args, {
    cwd: directory,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const spawned = await Promise.race([
    once(child, "spawn").then(() => null),
    new Promise((resolve) => child.once("error", resolve)),
  ]);
  if (spawned) {
    const notFound = spawned.code === "ENOENT";
    const text = `${cmd}: ${notFound ? "command not found" : spawned.message}\n`;
    send({ event: "output", command, stream: "stderr" }, Buffer.from(text));
    send({ event: "exit", command, code: notFound ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE });
    return;
  }
  running.set(command, child);
  const meter = { bytes: 0, open: true };
  forward(child.stdout, command, "stdout", meter);
  forward(child.stderr, command, "stderr", meter);
  child.once("exit", (code, killedBy) => {
    void finish(child, command, meter, code ?? 128 + osConstants.signals[killedBy]);
  });
}

function forward(source, command, stream, meter) {
  sources.add(source);
  if (blocked) source.pause();
  source.on("data", (chunk) => {
    // A daemon may keep the pipe after its command ended: go on reading, so that it is not stopped by it.
    if (!meter.open) return;
    meter.bytes += chunk.length;
    send({ event: "output", command, stream }, chunk);
  });
  source.on("close", () => sources.delete(source));
  source.on("error", () => {});
}

async function finish(child, command, meter, code) {
  await drained(child, meter);
  meter.open = false;
  running.delete(command);
  send({ event: "exit", command, code });
}

async function drained(child, meter) {
  const closed = once(child, "close").then(() => true);
  const limit = meter.bytes + DRAIN_BYTES;
  for (let round = 0; round < DRAIN_ROUNDS; ) {
    const before = meter.bytes;
    // Timers fire before the poll phase: without one more turn, a process that was not scheduled for a while
    // would take its own delay for silence and lose what waits in the pipe.
    if (await Promise.race([closed, sleep(DRAIN_IDLE_MS).then(() => turn(false))])) return;
    if (blocked) continue;
    if (meter.bytes === before || meter.bytes > limit) return;
    round += 1;
  }
}

function signal({ command, signal: number }) {
  const child = running.get(command);
  if (!child) return;
  try {
    process.kill(-child.pid, number);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

async function makeDirectory({ path: target, recursive }) {
  await mkdir(await inside(target), { recursive });
}

async function write({ path: target, mode, append }, body) {
  const file = await inside(target);
  if (!append) await mkdir(path.dirname(file), { recursive: true });
  const how = append ? constants.O_APPEND : constants.O_TRUNC;
  // O_NONBLOCK: a fifo in the place of the file must answer, not hang.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK | how;
  const handle = await open(file, flags, mode);
  try {
    if (!(await handle.stat()).isFile()) throw coded("EINVAL", `not a regular file: ${target}`);
    await handle.writeFile(body);
    if (!append) await handle.chmod(mode);
  } finally {
    await handle.close();
  }
}

async function openForRead({ path: target }) {
  const handle = await open(await inside(target), constants.O_RDONLY | constants.O_NONBLOCK);
  const stats = await handle.stat();
  if (!stats.isFile()) {
    await handle.close();
    throw coded(stats.isDirectory() ? "EISDIR" : "EINVAL", `not a regular file: ${target}`);
  }
  const id = nextHandle++;
  handles.set(id, handle);
  return { fields: { handle: id } };
}

async function read({ handle, length }) {
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await handles.get(handle).read(buffer, 0, length);
  return { body: buffer.subarray(0, bytesRead) };
}

async function close({ handle }) {
  const opened = handles.get(handle);
  handles.delete(handle);
  await opened?.close();
}

// In a namespace every path is inside. Without one, a symlink must not lead the API out of the directory.
async function inside(target) {
  const absolute = path.posix.resolve("/vercel/sandbox", target);
  if (!root) return absolute;
  const mapped = path.join(root, absolute);
  for (let existing = mapped; ; existing = path.dirname(existing)) {
    const real = await realpath(existing).catch(absent);
    if (real === undefined) {
      // A link to what is not there yet: opening it would make the file it leads to.
      if ((await lstat(existing).catch(absent))?.isSymbolicLink()) break;
      continue;
    }
    if (real !== root && !real.startsWith(`${root}/`)) break;
    return path.join(real, path.relative(existing, mapped));
  }
  throw coded("EACCES", `outside the sandbox: ${target}`);
}

function absent(error) {
  if (error.code === "ENOENT") return undefined;
  throw error;
}

function shutDown() {
  for (const child of running.values()) {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {}
  }
  process.exit(0);
}

function send(header, body = Buffer.alloc(0)) {
  const json = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(json.length, 0);
  lengths.writeUInt32BE(body.length, 4);
  process.stdout.cork();
  process.stdout.write(lengths);
  process.stdout.write(json);
  const flowing = process.stdout.write(body);
  process.stdout.uncork();
  if (flowing || blocked) return;
  blocked = true;
  for (const source of sources) source.pause();
}

function frameReader(onFrame) {
  let buffered = Buffer.alloc(0);
  return (chunk) => {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    while (buffered.length >= 8) {
      const headerEnd = 8 + buffered.readUInt32BE(0);
      const end = headerEnd + buffered.readUInt32BE(4);
      if (buffered.length < end) return;
      const header = JSON.parse(buffered.toString("utf8", 8, headerEnd));
      void onFrame(header, buffered.subarray(headerEnd, end));
      buffered = buffered.subarray(end);
    }
  };
}

function coded(code, message) {
  return Object.assign(new Error(message), { code });
}
