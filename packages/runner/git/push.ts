import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { GitCredential, RepoConfig } from "@concierge/protocol";
import { uptimeMs } from "../process/clock.ts";
import { messageOf } from "../process/errors.ts";
import { backoffMs } from "../transport/client.ts";
import type { TurnConfig } from "../turn/config.ts";
import type { Git, GitResult } from "./git.ts";

/** `unknown`: it was sent, but the remote does not say whether it arrived. */
export type PushOutcome = { kind: "pushed" } | { kind: "refused"; detail: string } | { kind: "unknown" };

export interface PushOptions {
  config: TurnConfig;
  repo: RepoConfig;
  git: Git;
  describe: (result: Omit<GitResult, "stdout">) => string;
}

/** Prevents curl's own retry, which it makes when a reused connection breaks. */
const sendOnce = ["-c", "http.version=HTTP/1.1", "-c", "http.extraHeader=Connection: close"];

const rejectionPattern = /^!\t.*\t(\[(?:remote )?rejected\].*)$/m;

/** Sends one push, never a second one. If its outcome is unclear, asks the remote for the branch instead. */
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
    return await sendAndConfirm();
  } finally {
    rmSync(gitDir, { recursive: true, force: true });
  }

  /**
   * A bare repository that shares only the objects of the agent's clone, so that no hook, setting or helper of the clone
   * is used. Its random name keeps the agent from preparing it.
   */
  async function makeGitDir(): Promise<string> {
    const directory = mkdtempSync(join(runDir, "push-"));
    const args = ["init", "--quiet", "--bare", "--template=", directory];
    const created = await git.run({ args, timeoutMs: timings.pushMs });
    if (created.exitCode !== 0) throw new Error(describe(created));
    writeFileSync(join(directory, "objects", "info", "alternates"), `${join(cwd, ".git", "objects")}\n`);
    return directory;
  }

  async function sendAndConfirm(): Promise<PushOutcome> {
    const pushed = await git.run({
      args: ["--git-dir", gitDir, ...sendOnce, "push", "--porcelain", repo.url, `${commit}:${ref}`],
      access,
      timeoutMs: timings.pushMs,
    });
    if (pushed.exitCode === 0) return { kind: "pushed" };
    const refusal = { kind: "refused", detail: describeRefusal(pushed) } as const;
    if (isRefusal(pushed)) return refusal;
    for (let failures = 1; uptimeMs() < untilMs; failures++) {
      const found = await askRemote();
      if (found !== undefined) return found.commit === commit ? { kind: "pushed" } : refusal;
      await sleep(Math.min(backoffMs(failures, Math.random), Math.max(0, untilMs - uptimeMs())));
    }
    return { kind: "unknown" };
  }

  /** Undefined if the remote does not answer. */
  async function askRemote(): Promise<{ commit: string | undefined } | undefined> {
    const { exitCode, stdout } = await git.run({
      args: ["--git-dir", gitDir, "ls-remote", repo.url, ref],
      access,
      timeoutMs: untilMs - uptimeMs(),
    });
    if (exitCode !== 0) return undefined;
    // ls-remote also lists longer names that end with this one.
    const lines = stdout.split("\n").map((line) => line.split("\t"));
    return { commit: lines.find(([, name]) => name === ref)?.[0] };
  }

  /** Git prints the reason of a rejection on stdout, the rest on stderr. */
  function describeRefusal(result: GitResult): string {
    const why = rejectionPattern.exec(result.stdout)?.[1] ?? "";
    return describe({ ...result, stderr: `${result.stderr}\n${why}` });
  }
}

/**
 * Whether the remote certainly did not accept the push: git did not send it, or was not let in. Anything else is unclear,
 * even a rejection by the remote. A proxy may have sent the push twice, and the rejection may answer the second one.
 */
export function isRefusal({ stdout, stderr }: Pick<GitResult, "stdout" | "stderr">): boolean {
  if (/^!\t.*\t\[rejected\]/m.test(stdout)) return true;
  return /returned error: 4(?!08|29)\d\d|Authentication failed|could not read (Username|Password)/.test(
    stderr,
  );
}
