import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { GitCredential, RepoConfig } from "@concierge/protocol";
import { uptimeMs } from "../process/clock.ts";
import { failureLogMaxLength } from "../process/errors.ts";
import type { TurnConfig } from "../turn/config.ts";
import { author, type Git, type GitCall, type GitResult } from "./git.ts";
import { type PushOutcome, pushOnce } from "./push.ts";

/** The branch's commit when it was cloned or last pushed. If HEAD is still there, there is nothing to push. */
const baseRef = "refs/concierge/base";

/** In the clone's configuration: which repository it is, and that the clone is complete. */
const urlKey = "concierge.url";
const readyKey = "concierge.ready";

/** The turn's repository. A step that fails throws a `GitError`. */
export interface Repo {
  /** Makes the clone and checks out the branch. A clone of an earlier turn is used as it is. */
  prepare(credential: GitCredential | null): Promise<void>;
  /** Commits uncommitted changes. Undefined if the turn has changed nothing. */
  commit(): Promise<string | undefined>;
  /** At most once per turn, and only after it was granted. */
  push(commit: string, credential: GitCredential | null): Promise<PushOutcome>;
}

export class GitError extends Error {
  readonly timedOut: boolean;

  constructor(message: string, timedOut = false) {
    super(message);
    this.timedOut = timedOut;
  }
}

export interface RepoOptions {
  config: TurnConfig;
  repo: RepoConfig;
  git: Git;
  /** Git's messages may contain a secret. */
  mask: (text: string) => string;
}

export function createRepo({ config, repo, git, mask }: RepoOptions): Repo {
  const { cwd } = config;
  const gitDir = join(cwd, ".git");
  // Named on every call: if the agent removed the clone, git must not find another repository above it.
  const inClone = (...args: string[]) => ["-C", cwd, "--git-dir", gitDir, "--work-tree", cwd, ...args];

  async function prepare(credential: GitCredential | null): Promise<void> {
    const url = await setting(urlKey);
    if (url === undefined && !isEmpty(cwd)) throw new GitError(`${cwd} is not empty and not a clone`);
    if (url !== undefined && url !== repo.url) throw new GitError(`${cwd} is a clone of another repository`);
    if ((await setting(readyKey)) === undefined) return clone(credential);
    if ((await succeed(inClone("branch", "--show-current"))) === repo.branch) return;
    const exists = (await commitOf(`refs/heads/${repo.branch}`)) !== undefined;
    await succeed(inClone("checkout", "--quiet", ...(exists ? [] : ["-b"]), repo.branch, "--"));
  }

  /**
   * Removes an incomplete clone first. No agent has worked in it, and the credential must never be used with a
   * configuration that an agent could have written.
   */
  async function clone(credential: GitCredential | null): Promise<void> {
    const access = { url: repo.url, credential };
    rmSync(gitDir, { recursive: true, force: true });
    await succeed(["init", "--quiet", cwd]);
    await succeed(inClone("config", urlKey, repo.url));
    await succeed(inClone("remote", "add", "origin", repo.url));
    await succeed(inClone("fetch", "--quiet", "--tags", "--no-recurse-submodules", "origin"), { access });
    await call(inClone("remote", "set-head", "origin", "--auto"), { access });
    await checkOutBranch();
    // For the agent's own commits.
    await succeed(inClone("config", "user.name", author.name));
    await succeed(inClone("config", "user.email", author.email));
    await succeed(inClone("config", readyKey, "true"));
  }

  async function checkOutBranch(): Promise<void> {
    const start =
      (await commitOf(`refs/remotes/origin/${repo.branch}`)) ??
      (await commitOf(`refs/remotes/origin/${repo.baseBranch ?? "HEAD"}`));
    if (start !== undefined) {
      await succeed(inClone("update-ref", baseRef, start));
      await succeed(inClone("checkout", "--quiet", "--force", "--no-track", "-B", repo.branch, start));
      return;
    }
    if (repo.baseBranch !== undefined) throw new GitError(`the remote has no branch ${repo.baseBranch}`);
    if ((await succeed(inClone("for-each-ref", "--count=1", "refs/remotes"))) !== "") {
      throw new GitError("the remote has no default branch");
    }
    // An empty repository: the branch starts with the first commit.
    await succeed(inClone("symbolic-ref", "HEAD", `refs/heads/${repo.branch}`));
  }

  async function commit(): Promise<string | undefined> {
    await succeed(inClone("add", "--all"));
    const staged = await call(inClone("diff", "--cached", "--quiet", "--no-ext-diff"));
    if (staged.exitCode !== 0) {
      const options = ["--quiet", "--no-gpg-sign", "--allow-empty-message", "--file=-"];
      await succeed(inClone("commit", ...options), { input: repo.message });
    }
    const head = await commitOf("HEAD");
    return head === (await commitOf(baseRef)) ? undefined : head;
  }

  async function push(commit: string, credential: GitCredential | null): Promise<PushOutcome> {
    const outcome = await pushOnce({ config, repo, git, describe }, commit, credential);
    if (outcome.kind === "pushed") await moveBase(commit);
    return outcome;
  }

  /** If this fails, the next turn pushes the same commit again, which changes nothing. */
  async function moveBase(commit: string): Promise<void> {
    const args = inClone("update-ref", baseRef, commit);
    await git.run({ args, timeoutMs: config.timings.killGraceMs });
  }

  async function setting(key: string): Promise<string | undefined> {
    const { exitCode, stdout } = await call(["config", "--file", join(gitDir, "config"), "--get", key]);
    return exitCode === 0 ? stdout.trimEnd() : undefined;
  }

  async function commitOf(ref: string): Promise<string | undefined> {
    const { exitCode, stdout } = await call(inClone("rev-parse", "--verify", "--quiet", `${ref}^{commit}`));
    return exitCode === 0 ? stdout.trimEnd() : undefined;
  }

  async function succeed(args: readonly string[], options: Partial<GitCall> = {}): Promise<string> {
    const result = await call(args, options);
    if (result.exitCode !== 0) throw new GitError(describe(result));
    return result.stdout.trimEnd();
  }

  /** Ends at the turn's deadline. Only a granted push may take longer. */
  async function call(args: readonly string[], options: Partial<GitCall> = {}): Promise<GitResult> {
    const result = await git.run({ timeoutMs: config.maxDurationMs - uptimeMs(), ...options, args });
    if (result.timedOut) throw new GitError(describe(result), true);
    return result;
  }

  function describe({ exitCode, timedOut, stderr }: Omit<GitResult, "stdout">): string {
    if (timedOut) return "git did not end in time";
    const message = mask(stderr).trim().slice(-failureLogMaxLength);
    return message === "" ? `git ended with ${exitCode ?? "a signal"}` : message;
  }

  return { prepare, commit, push };
}

function isEmpty(directory: string): boolean {
  try {
    return readdirSync(directory).length === 0;
  } catch {
    // It does not exist yet. If it is a file or unreadable, git reports that.
    return true;
  }
}
