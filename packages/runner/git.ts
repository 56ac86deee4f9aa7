import type { ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { GitCredential } from "./protocol.ts";

const { spawn } = process.getBuiltinModule("node:child_process");
const { setTimeout: sleep } = process.getBuiltinModule("node:timers/promises");

/** What an answer of git's may hold at the most; the rest is read and thrown away. */
const MAX_STDOUT_BYTES = 64 * 1024;
const MAX_STDERR_LENGTH = 8 * 1024;

/** Timers take 32 bits of milliseconds; a turn may last longer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What of the runner's own environment git gets to see: where programs are, and how to reach the network. */
const INHERITED = [
  "PATH",
  "TMPDIR",
  ...["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"],
];

/** Whose commits they are that nobody else has signed for. */
export const AUTHOR = { name: "Concierge", email: "concierge@localhost" };

/** Set against what a clone's own configuration may say: nothing of it is to be run, nothing is left running. */
const FIXED_SETTINGS = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "credential.helper=",
  "gc.auto=0",
  "maintenance.auto=false",
  "advice.pushUpdateRejected=false",
];

export interface GitCall {
  args: readonly string[];
  input?: string;
  /** For this URL's host alone. */
  access?: { url: string; credential: GitCredential | null };
  timeoutMs: number;
}

export interface GitResult {
  /** Null where a signal ended it. */
  exitCode: number | null;
  timedOut: boolean;
  stdout: string;
  /** Its end. Not masked. */
  stderr: string;
}

export interface Git {
  /** Throws only where git cannot be started. */
  run(call: GitCall): Promise<GitResult>;
  isBusy(): boolean;
  /** Ends what runs, and lets nothing start any more. */
  close(): void;
}

export interface GitOptions {
  /** Variables by which a sweep finds what git started. */
  markers: Record<string, string>;
  timings: { killGraceMs: number; pipeGraceMs: number };
  /** It is busy now, or no longer. */
  onChange(): void;
}

export function createGit({ markers, timings, onChange }: GitOptions): Git {
  const running = new Set<number>();
  let closed = false;

  async function run({ args, input, access, timeoutMs }: GitCall): Promise<GitResult> {
    if (closed) throw new Error("git is not started any more: the turn is over");
    const child = spawn("git", [...toOptions([...FIXED_SETTINGS, ...helperFor(access)]), ...args], {
      cwd: "/",
      env: { ...environment(), ...markers, ...secretsOf(access) },
      stdio: ["pipe", "pipe", "pipe"],
      // Its own process group: git has helpers, and they end with it.
      detached: true,
    });
    const stdout = collect(child.stdout, (text) => text.slice(0, MAX_STDOUT_BYTES));
    const stderr = collect(child.stderr, (text) => text.slice(-MAX_STDERR_LENGTH));
    // Git may end without having read it.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const exited = waitForEnd(child, timings.pipeGraceMs);
    const { pid } = child;
    if (pid === undefined) return { exitCode: await exited, timedOut: false, stdout: "", stderr: "" };

    running.add(pid);
    onChange();
    let timedOut = false;
    let killTimer: NodeJS.Timeout | undefined;
    const timer = setTimeout(
      () => {
        timedOut = true;
        // Asked first: git takes its lock files with it.
        signalGroup(pid, "SIGTERM");
        killTimer = setTimeout(() => signalGroup(pid, "SIGKILL"), timings.killGraceMs);
      },
      Math.min(Math.max(0, timeoutMs), MAX_TIMER_MS),
    );
    try {
      const exitCode = await exited;
      // Git's helpers end before it, except where a signal ended it.
      if (exitCode === null) signalGroup(pid, "SIGKILL");
      return { exitCode, timedOut, stdout: stdout(), stderr: stderr() };
    } finally {
      clearTimeout(timer);
      clearTimeout(killTimer);
      running.delete(pid);
      onChange();
    }
  }

  return {
    run,
    isBusy: () => running.size > 0,
    close() {
      closed = true;
      for (const pid of running) signalGroup(pid, "SIGTERM");
    },
  };
}

function environment(): NodeJS.ProcessEnv {
  const inherited = Object.fromEntries(INHERITED.map((name) => [name, process.env[name]]));
  return {
    ...inherited,
    // The agent may have written to its home, and curl reads a file there, too.
    HOME: "/dev/null",
    // Its words are read: they must not depend on where we are.
    LC_ALL: "C",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_SYSTEM: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ALLOW_PROTOCOL: "http:https",
    GIT_AUTHOR_NAME: AUTHOR.name,
    GIT_AUTHOR_EMAIL: AUTHOR.email,
    GIT_COMMITTER_NAME: AUTHOR.name,
    GIT_COMMITTER_EMAIL: AUTHOR.email,
  };
}

/** The helper is in git's arguments for all to see; what it says is not. A redirect to another host gets nothing. */
function helperFor(access: GitCall["access"]): string[] {
  if (!access?.credential) return [];
  const script = `!f() { printf 'username=%s\\npassword=%s\\n' "$CONCIERGE_GIT_USERNAME" "$CONCIERGE_GIT_TOKEN"; }; f`;
  return [`credential.${new URL(access.url).origin}.helper=${script}`];
}

function secretsOf(access: GitCall["access"]): NodeJS.ProcessEnv {
  if (!access?.credential) return {};
  const { username, token } = access.credential;
  return { CONCIERGE_GIT_USERNAME: username, CONCIERGE_GIT_TOKEN: token };
}

function toOptions(settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ["-c", setting]);
}

function collect(stream: Readable, bound: (text: string) => string): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (part: string) => {
    text = bound(text + part);
  });
  return () => text;
}

/** With its exit code, once all it wrote is read; what a process it left behind holds open is not waited for. */
async function waitForEnd(
  child: ChildProcessByStdio<Writable, Readable, Readable>,
  pipeGraceMs: number,
): Promise<number | null> {
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once("exit", resolve);
    child.once("error", (error: NodeJS.ErrnoException) =>
      reject(new Error(`git cannot be started: ${error.code ?? error.message}`)),
    );
  });
  await Promise.race([closed, sleep(pipeGraceMs, undefined, { ref: false })]);
  child.stdout.destroy();
  child.stderr.destroy();
  return exitCode;
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}
