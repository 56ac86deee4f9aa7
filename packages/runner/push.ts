import { backoffMs } from "./client.ts";
import { uptimeMs } from "./clock.ts";
import type { RepoConfig, TurnConfig } from "./config.ts";
import { messageOf } from "./errors.ts";
import type { Git, GitResult } from "./git.ts";
import type { GitCredential } from "./protocol.ts";

const { mkdtempSync, rmSync, writeFileSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");
const { setTimeout: sleep } = process.getBuiltinModule("node:timers/promises");

/** `unknown`: it was sent, and the remote could not be asked what became of it. */
export type PushOutcome = { kind: "pushed" } | { kind: "refused"; detail: string } | { kind: "unknown" };

export interface PushOptions {
  config: TurnConfig;
  repo: RepoConfig;
  git: Git;
  describe: (result: Omit<GitResult, "stdout">) => string;
}

/** On a connection that it has used before, curl sends a request that breaks again by itself. */
const SEND_ONCE = ["-c", "http.version=HTTP/1.1", "-c", "http.extraHeader=Connection: close"];

const REJECTION = /^!\t.*\t(\[(?:remote )?rejected\].*)$/m;

/** Pushes one commit, once; where that does not say how it went, the remote is asked, and nothing is sent again. */
export async function pushOnce(
  { config, repo, git, describe }: PushOptions,
  commit: string,
  credential: GitCredential | null,
): Promise<PushOutcome> {
  const { runDir, cwd, timings } = config;
  const untilMs = uptimeMs() + timings.finalizeMs;
  const ref = `refs/heads/${repo.branch}`;
  const access = { url: repo.url, credential };
  let gitDir: string;
  try {
    gitDir = await makeGitDir();
  } catch (error) {
    return { kind: "refused", detail: messageOf(error) };
  }
  try {
    return await sendAndAsk();
  } finally {
    rmSync(gitDir, { recursive: true, force: true });
  }

  /**
   * The agent's clone gives the objects and nothing else: no hook, no setting, no helper of its is used. The name is new,
   * so that nobody can have been there before.
   */
  async function makeGitDir(): Promise<string> {
    const directory = mkdtempSync(join(runDir, "push-"));
    const args = ["init", "--quiet", "--bare", "--template=", directory];
    const made = await git.run({ args, timeoutMs: timings.pushMs });
    if (made.exitCode !== 0) throw new Error(describe(made));
    writeFileSync(join(directory, "objects", "info", "alternates"), `${join(cwd, ".git", "objects")}\n`);
    return directory;
  }

  async function sendAndAsk(): Promise<PushOutcome> {
    const pushed = await git.run({
      args: ["--git-dir", gitDir, ...SEND_ONCE, "push", "--porcelain", repo.url, `${commit}:${ref}`],
      access,
      timeoutMs: timings.pushMs,
    });
    if (pushed.exitCode === 0) return { kind: "pushed" };
    const refused = { kind: "refused", detail: describeRefusal(pushed) } as const;
    if (isRefusal(pushed)) return refused;
    for (let failures = 1; uptimeMs() < untilMs; failures++) {
      const found = await askRemote();
      if (found !== undefined) return found.commit === commit ? { kind: "pushed" } : refused;
      await sleep(Math.min(backoffMs(failures, Math.random), Math.max(0, untilMs - uptimeMs())));
    }
    return { kind: "unknown" };
  }

  /** Undefined where it gives no answer. */
  async function askRemote(): Promise<{ commit: string | undefined } | undefined> {
    const { exitCode, stdout } = await git.run({
      args: ["--git-dir", gitDir, "ls-remote", repo.url, ref],
      access,
      timeoutMs: untilMs - uptimeMs(),
    });
    if (exitCode !== 0) return undefined;
    // The name that was asked for is also found at the end of longer ones.
    const lines = stdout.split("\n").map((line) => line.split("\t"));
    return { commit: lines.find(([, name]) => name === ref)?.[0] };
  }

  /** Git says why it was rejected on stdout, and the rest on stderr. */
  function describeRefusal(result: GitResult): string {
    const why = REJECTION.exec(result.stdout)?.[1] ?? "";
    return describe({ ...result, stderr: `${result.stderr}\n${why}` });
  }
}

/**
 * It is certain that the remote has not taken it: git did not even send it, or was let in nowhere. Everything else, a
 * rejection by the remote too, may be the answer to a second try that something on the way has made of the first.
 */
export function isRefusal({ stdout, stderr }: Pick<GitResult, "stdout" | "stderr">): boolean {
  if (/^!\t.*\t\[rejected\]/m.test(stdout)) return true;
  return /returned error: 4(?!08|29)\d\d|Authentication failed|could not read (Username|Password)/.test(
    stderr,
  );
}
