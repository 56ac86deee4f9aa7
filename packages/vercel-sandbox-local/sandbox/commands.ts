import path from "node:path";
import { ApiError } from "../http/errors.ts";
import { networkDir } from "../isolation/bwrap.ts";
import type { CommandEvents, CommandSpec } from "../isolation/machine.ts";
import { type CommandLog, createCommandLog, readCommandLog } from "./command-log.ts";
import { type CommandRecord, newId, type SessionRecord, sandboxCwd } from "./records.ts";
import { type RunningSession, refusal, runningSession, sessionById, stopped, type World } from "./world.ts";

export interface LiveCommand {
  record: CommandRecord;
  log: CommandLog;
  /** Set while a finished install is delayed by `latency.installMs`. */
  interrupt?: ((signal: number) => void) | undefined;
  /** Resolves at the exit. If the session ended first, `record.exitCode` is still null. */
  done: Promise<void>;
  /** Ends the command without an exit code. */
  cut(): void;
}

export interface CommandRequest {
  command: string;
  args: string[];
  cwd?: string | undefined;
  env: Record<string, string>;
  timeoutMs?: number | undefined;
}

/** Defaults; the sandbox and the caller can override them. */
const baseEnvironment = {
  PATH: "/vercel/runtimes/node24/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/home/vercel-sandbox",
  LANG: "C.UTF-8",
};

// The machine's certificates and the sandbox's own, which signs for hosts whose requests its gateway changes.
const trustEnvironment = {
  NODE_EXTRA_CA_CERTS: `${networkDir}/ca.pem`,
  SSL_CERT_FILE: `${networkDir}/bundle.pem`,
  CURL_CA_BUNDLE: `${networkDir}/bundle.pem`,
  GIT_SSL_CAINFO: `${networkDir}/bundle.pem`,
  REQUESTS_CA_BUNDLE: `${networkDir}/bundle.pem`,
};

export function defaultEnvironment({ isolation }: World): Record<string, string> {
  return isolation === "none" ? baseEnvironment : { ...baseEnvironment, ...trustEnvironment };
}

const sigkill = 9;
const signalExitBase = 128;
const installVerbs = new Set(["install", "i", "ci", "add"]);
const sandboxStoppedLine = `${JSON.stringify({
  stream: "error",
  data: { code: "sandbox_stopped", message: "Sandbox was stopped while the stream was open." },
})}\n`;

export async function runCommand(
  world: World,
  sessionId: string,
  request: CommandRequest,
): Promise<LiveCommand> {
  const running = runningSession(world, sessionId);
  const session = sessionById(world, sessionId);
  const live = await startCommand(world, running, session, request);
  if (request.timeoutMs !== undefined) {
    const timer = setTimeout(
      () => void signalCommand(world, running, live, sigkill).catch(() => {}),
      request.timeoutMs,
    );
    void live.done.then(() => clearTimeout(timer));
  }
  return live;
}

async function startCommand(
  world: World,
  running: RunningSession,
  session: SessionRecord,
  request: CommandRequest,
): Promise<LiveCommand> {
  const sandbox = world.store.sandboxes.get(session.sandboxId);
  const record: CommandRecord = {
    id: newId("command"),
    sessionId: session.id,
    name: request.command,
    args: request.args,
    cwd: path.posix.resolve(sandboxCwd, request.cwd ?? ""),
    startedAt: Date.now(),
    exitCode: null,
  };
  const log = createCommandLog(
    world.store.logFile(session.id, record.id),
    world.options.limits.maxLogBytes,
    (error) => world.options.onLog(`log of ${record.id}: ${String(error)}`),
  );
  const installMs = isInstall(record) ? world.latency.installMs : 0;
  const done = Promise.withResolvers<void>();
  let isFinished = false;

  function finish(exitCode: number | null): void {
    if (isFinished) return;
    isFinished = true;
    log.end();
    if (exitCode !== null) {
      record.exitCode = exitCode;
      record.durationMs = Date.now() - record.startedAt;
      saveExit();
    }
    running.commands.delete(record.id);
    done.resolve();
  }

  function saveExit(): void {
    try {
      world.store.commands(session.id).exit(record);
    } catch (error) {
      // An error here would end the frame reader. A full disk must cost only this record, not the session.
      world.options.onLog(`exit of ${record.id}: ${String(error)}`);
    }
  }

  const live: LiveCommand = { record, log, done: done.promise, cut: () => finish(null) };
  running.commands.set(record.id, live);
  const spec: CommandSpec = {
    command: record.id,
    cmd: request.command,
    args: request.args,
    cwd: record.cwd,
    env: { ...defaultEnvironment(world), ...sandbox?.env, ...request.env },
  };
  const events: CommandEvents = {
    onOutput: log.append,
    onExit(code) {
      const rest = record.startedAt + installMs - Date.now();
      if (code !== 0 || rest <= 0) return finish(code);
      const timer = setTimeout(() => finish(code), rest).unref();
      live.interrupt = (signal) => {
        clearTimeout(timer);
        finish(signalExitBase + signal);
      };
    },
  };
  const save = async () => world.store.commands(session.id).start(record);
  try {
    // In parallel; the caller waits for both.
    await Promise.all([running.machine.spawn(spec, events), save()]);
  } catch (error) {
    finish(null);
    throw refusal(world, session.id, error, record.cwd);
  }
  return live;
}

function isInstall({ name, args }: CommandRecord): boolean {
  return name === "npm" && args.some((arg) => installVerbs.has(arg));
}

export async function killCommand(
  world: World,
  sessionId: string,
  commandId: string,
  signal: number,
): Promise<CommandRecord> {
  const running = runningSession(world, sessionId);
  const live = running.commands.get(commandId);
  if (live) await signalCommand(world, running, live, signal);
  return live?.record ?? commandRecord(world, sessionId, commandId);
}

async function signalCommand(
  world: World,
  running: RunningSession,
  live: LiveCommand,
  signal: number,
): Promise<void> {
  if (live.interrupt) return live.interrupt(signal);
  try {
    await running.machine.signal(live.record.id, signal);
  } catch (error) {
    throw refusal(world, live.record.sessionId, error, live.record.name);
  }
}

/** A finished command is readable after its session ended. One that the end interrupted answers as stopped. */
export function commandRecord(world: World, sessionId: string, commandId: string): CommandRecord {
  const session = sessionById(world, sessionId);
  const live = world.running.get(sessionId)?.commands.get(commandId);
  const record = live?.record ?? world.store.commands(sessionId).read(commandId);
  if (!record) throw new ApiError("not_found", "Command not found.");
  if (!live && record.exitCode === null && session.status !== "running") throw stopped();
  return record;
}

export async function waitForCommand(
  world: World,
  sessionId: string,
  commandId: string,
  signal: AbortSignal,
): Promise<CommandRecord> {
  const live = world.running.get(sessionId)?.commands.get(commandId);
  if (!live) return commandRecord(world, sessionId, commandId);
  await Promise.race([live.done, aborted(signal)]);
  if (live.record.exitCode === null) throw stopped();
  return live.record;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** NDJSON log lines, with an error line at the end if the session ended before the command. */
export async function* commandLogs(
  world: World,
  sessionId: string,
  commandId: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer | string> {
  const live = world.running.get(sessionId)?.commands.get(commandId);
  if (live) {
    yield* liveLogs(live, signal);
    return;
  }
  yield* readCommandLog(world.store.logFile(sessionId, commandId));
  if (world.store.commands(sessionId).read(commandId)?.exitCode === null) yield sandboxStoppedLine;
}

export async function* liveLogs(live: LiveCommand, signal: AbortSignal): AsyncGenerator<Buffer | string> {
  yield* live.log.follow(signal);
  if (signal.aborted) return;
  await live.done;
  if (live.record.exitCode === null) yield sandboxStoppedLine;
}
