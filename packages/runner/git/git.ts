import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { GitCredential } from "@concierge/protocol";

/** The rest of git's output is read and dropped. */
const stdoutMaxLength = 64 * 1024;
const stderrMaxLength = 8 * 1024;

/** Timers take 32 bits of milliseconds. A turn may last longer. */
const timerMaxMs = 2 ** 31 - 1;

/** What git gets of the runner's environment: where programs are, and how to reach the network. */
const inheritedNames = [
  "PATH",
  "TMPDIR",
  ...["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"],
];

/** The identity of commits that the agent did not make with its own. */
export const author = { name: "Concierge", email: "concierge@localhost" };

/** Override the clone's configuration, which the agent can edit: git must not run its programs, nor leave any running. */
const fixedSettings = [
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
  /** The credential is used for this URL's host only. */
  access?: { url: string; credential: GitCredential | null };
  timeoutMs: number;
}

export interface GitResult {
  /** Null if a signal ended git. */
  exitCode: number | null;
  timedOut: boolean;
  stdout: string;
  /** The end of it, not masked. */
  stderr: string;
}

export interface Git {
  /** Throws only if git cannot be started. */
  run(call: GitCall): Promise<GitResult>;
  isBusy(): boolean;
  /** Ends running calls and refuses new ones. */
  close(): void;
}

export interface GitOptions {
  /** Variables by which a sweep finds git's processes. */
  markers: Record<string, string>;
  timings: { killGraceMs: number; pipeGraceMs: number };
  /** `isBusy` has changed. */
  onChange(): void;
}

export function createGit({ markers, timings, onChange }: GitOptions): Git {
  const running = new Set<number>();
  let closed = false;

  async function run({ args, input, access, timeoutMs }: GitCall): Promise<GitResult> {
    if (closed) throw new Error("git is not started: the turn is over");
    const child = spawn("git", [...toOptions([...fixedSettings, ...helperFor(access)]), ...args], {
      cwd: "/",
      env: { ...environment(), ...markers, ...secretsOf(access) },
      stdio: ["pipe", "pipe", "pipe"],
      // In its own process group, so that git's helpers end with it.
      detached: true,
    });
    const stdout = collect(child.stdout, (text) => text.slice(0, stdoutMaxLength));
    const stderr = collect(child.stderr, (text) => text.slice(-stderrMaxLength));
    // Git may exit without reading its input.
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
        // SIGTERM first, so that git removes its lock files.
        signalGroup(pid, "SIGTERM");
        killTimer = setTimeout(() => signalGroup(pid, "SIGKILL"), timings.killGraceMs);
      },
      Math.min(Math.max(0, timeoutMs), timerMaxMs),
    );
    try {
      const exitCode = await exited;
      // After a signal, git's helpers may still run.
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
  const inherited = Object.fromEntries(inheritedNames.map((name) => [name, process.env[name]]));
  return {
    ...inherited,
    // The agent can write to its home, and curl reads a file there, too.
    HOME: "/dev/null",
    // The runner parses git's messages, so they must not be translated.
    LC_ALL: "C",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_SYSTEM: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ALLOW_PROTOCOL: "http:https",
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_COMMITTER_NAME: author.name,
    GIT_COMMITTER_EMAIL: author.email,
  };
}

/** Git's arguments are visible to all, so they hold only the helper. It does not answer for another host after a redirect. */
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

/** Resolves with the exit code once the output is read. Does not wait for pipes that a background process holds open. */
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
    // The group has ended.
  }
}
