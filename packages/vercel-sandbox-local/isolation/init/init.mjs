// The first process of a sandbox. It runs inside the namespace, reads requests from the API on stdin, and replies on
// stdout. `../machine.ts` is the other side; `../frames.ts` describes the frames.
// Plain JavaScript without dependencies: stripping types would double the start time of a sandbox.
// File operations are synchronous: they block only this sandbox and are faster than the thread pool.
import { spawn } from "node:child_process";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { constants as osConstants } from "node:os";
import path from "node:path";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";

const drainIdleMs = 30;
const drainRounds = 40;
// More than a pipe holds. After this many bytes, everything written before the exit has arrived.
const drainBytes = 1 << 20;
const closeOnExec = 0o2000000;
const exitNotFound = 127;
const exitNotExecutable = 126;

// Empty in a namespace. Without one, the directory that stands for "/".
const root = process.argv[2] ?? "";

const running = new Map();
const sources = new Set();
let blocked = false;
let held;

const operations = {
  spawn: start,
  signal,
  mkdir: makeDirectory,
  write,
  open: openForRead,
  read,
  close,
};

// `pkill node` or `kill -TERM -1` in a sandbox must not end init.
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
closeInherited();
send({ event: "ready" });
// After the report, so that the API can go on meanwhile. The first request is read when the network is there.
if (!root) {
  const { dial, forwardPorts, openNetwork } = await import("./network.mjs");
  await openNetwork();
  Object.assign(operations, { dial, forwardPorts });
  // The first command does not wait for it.
  setTimeout(enforceLimits, 100).unref();
}
process.stdin.on("data", frameReader(handle));

async function enforceLimits() {
  const { watch } = await import("./watch.mjs");
  watch({
    maxProcesses: Number(process.env.SANDBOX_MAX_PROCESSES),
    maxMemoryBytes: Number(process.env.SANDBOX_MAX_MEMORY_BYTES),
    report(text) {
      for (const command of running.keys()) {
        send({ event: "output", command, stream: "stderr" }, Buffer.from(`sandbox: ${text}\n`));
      }
    },
  });
}

/** Descriptors that the API itself inherited would pass to every command. Those of this process close on exec. */
function closeInherited() {
  for (const name of readdirSync("/proc/self/fd")) {
    if (Number(name) <= 2) continue;
    const flags = unlessAbsent(
      (file) => /^flags:\s+(\d+)/m.exec(readFileSync(file, "utf8"))?.[1],
      `/proc/self/fdinfo/${name}`,
    );
    if (flags !== undefined && !(Number.parseInt(flags, 8) & closeOnExec)) closeSync(Number(name));
  }
}

function handle(header, body) {
  if (held) {
    held.push([header, body]);
    return;
  }
  let result;
  try {
    result = operations[header.op](header, body) ?? {};
  } catch (error) {
    send({ reply: header.id, ok: false, code: error.code ?? "EIO", message: error.message });
    return;
  }
  send({ reply: header.id, ok: true, ...result.fields }, result.body);
  result.afterwards?.();
  if (result.until) hold(result.until);
}

/** Later requests wait: the next command may use what this one prepares. */
function hold(until) {
  const waiting = [];
  held = waiting;
  void until.then(() => {
    held = undefined;
    // One of them can hold the rest again.
    for (const request of waiting) handle(...request);
  });
}

// Reply before the fork, which is slow because it copies page tables. No later request is read before it is done.
function start({ command, cmd, args, cwd, env }) {
  const directory = inside(cwd);
  if (!statSync(directory).isDirectory()) throw coded("ENOTDIR", `not a directory: ${cwd}`);
  return {
    afterwards() {
      try {
        launch(command, cmd, args, { cwd: directory, env });
      } catch (error) {
        notStarted(command, cmd, error);
      }
    },
  };
}

function launch(command, cmd, args, where) {
  const child = spawn(cmd, args, { ...where, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  child.once("error", (error) => notStarted(command, cmd, error));
  if (child.pid === undefined) return;
  running.set(command, child);
  const meter = { bytes: 0, open: true };
  forward(child.stdout, command, "stdout", meter);
  forward(child.stderr, command, "stderr", meter);
  child.once("exit", (code, killedBy) => {
    void finish(child, command, meter, code ?? 128 + osConstants.signals[killedBy]);
  });
}

function notStarted(command, cmd, error) {
  const notFound = error.code === "ENOENT";
  const text = `${cmd}: ${notFound ? "command not found" : error.message}\n`;
  send({ event: "output", command, stream: "stderr" }, Buffer.from(text));
  send({ event: "exit", command, code: notFound ? exitNotFound : exitNotExecutable });
}

function forward(source, command, stream, meter) {
  sources.add(source);
  if (blocked) source.pause();
  source.on("data", (chunk) => {
    // A daemon can hold the pipe after its command ended. Keep reading, or a full pipe would block it.
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
  const closed = new Promise((resolve) => child.once("close", () => resolve(true)));
  // Usually the pipes close with the process.
  if (await Promise.race([closed, turn(false)])) return;
  const limit = meter.bytes + drainBytes;
  for (let round = 0; round < drainRounds; ) {
    const before = meter.bytes;
    // Timers fire before the poll phase. If this process was not scheduled for a while, the timer fires before pending
    // output is read. Wait one more turn; otherwise that output is lost.
    if (await Promise.race([closed, sleep(drainIdleMs).then(() => turn(false))])) return;
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

function makeDirectory({ path: target, recursive }) {
  mkdirSync(inside(target), { recursive });
}

function write({ entries }, body) {
  let position = 0;
  for (const { path: target, kind, mode, length } of entries) {
    if (kind === "directory") makeDirectory({ path: target, recursive: true });
    else writeOne(target, kind === "rest", mode, body.subarray(position, position + length));
    position += length;
  }
}

function writeOne(target, append, mode, bytes) {
  const file = inside(target);
  if (!append) mkdirSync(path.dirname(file), { recursive: true });
  const how = append ? constants.O_APPEND : constants.O_TRUNC;
  // O_NONBLOCK: opening a FIFO must fail, not hang.
  const handle = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK | how, mode);
  try {
    if (!fstatSync(handle).isFile()) throw coded("EINVAL", `not a regular file: ${target}`);
    writeFileSync(handle, bytes);
    if (!append) fchmodSync(handle, mode);
  } finally {
    closeSync(handle);
  }
}

function openForRead({ path: target }) {
  const handle = openSync(inside(target), constants.O_RDONLY | constants.O_NONBLOCK);
  const stats = fstatSync(handle);
  if (!stats.isFile()) {
    closeSync(handle);
    throw coded(stats.isDirectory() ? "EISDIR" : "EINVAL", `not a regular file: ${target}`);
  }
  return { fields: { handle } };
}

function read({ handle, length }) {
  const buffer = Buffer.allocUnsafe(length);
  // Files in /proc and /sys return short reads.
  for (let filled = 0; ; ) {
    const bytesRead = readSync(handle, buffer, filled, length - filled);
    filled += bytesRead;
    if (bytesRead === 0 || filled === length) return { body: buffer.subarray(0, filled) };
  }
}

function close({ handle }) {
  closeSync(handle);
}

// In a namespace every path is inside. Without one, a symlink must not lead out of the directory.
function inside(target) {
  const absolute = path.posix.resolve("/vercel/sandbox", target);
  if (!root) return absolute;
  const mapped = path.join(root, absolute);
  for (let existing = mapped; ; existing = path.dirname(existing)) {
    const real = unlessAbsent(realpathSync.native, existing);
    if (real === undefined) {
      // A dangling symlink: opening it would create its target.
      if (unlessAbsent(lstatSync, existing)?.isSymbolicLink()) break;
      continue;
    }
    if (real !== root && !real.startsWith(`${root}/`)) break;
    return path.join(real, path.relative(existing, mapped));
  }
  throw coded("EACCES", `outside the sandbox: ${target}`);
}

function unlessAbsent(read, target) {
  try {
    return read(target);
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
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
      onFrame(header, buffered.subarray(headerEnd, end));
      buffered = buffered.subarray(end);
    }
  };
}

function coded(code, message) {
  return Object.assign(new Error(message), { code });
}
