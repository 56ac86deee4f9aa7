import { uptimeMs } from "./clock.ts";
import type { RepoConfig, TurnConfig } from "./config.ts";
import { AUTHOR, type Git, type GitCall, type GitResult } from "./git.ts";
import { type GitCredential, MAX_DETAIL_LENGTH } from "./protocol.ts";
import { type PushOutcome, pushOnce } from "./push.ts";

const { readdirSync, rmSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

/** What the branch was when it was cloned or last pushed: nothing is to be pushed where HEAD still is there. */
const BASE_REF = "refs/concierge/base";

/** In the clone's configuration: whose clone it is, and that it is whole. */
const URL_KEY = "concierge.url";
const READY_KEY = "concierge.ready";

/** The turn's repository, step by step. A step that cannot be done throws a `GitError`. */
export interface Repo {
  /** Leaves the clone on the branch; one from an earlier turn is used as it is. */
  prepare(credential: GitCredential | null): Promise<void>;
  /** Commits what is not committed. Undefined where the turn has changed nothing. */
  commit(): Promise<string | undefined>;
  /** At most once in a turn, and only once it is granted. */
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
  /** What git says may hold a secret. */
  mask: (text: string) => string;
}

export function createRepo({ config, repo, git, mask }: RepoOptions): Repo {
  const { cwd } = config;
  const gitDir = join(cwd, ".git");
  // Named on every call: git must not find another repository above where the agent has removed this one.
  const inClone = (...args: string[]) => ["-C", cwd, "--git-dir", gitDir, "--work-tree", cwd, ...args];

  async function prepare(credential: GitCredential | null): Promise<void> {
    const url = await setting(URL_KEY);
    if (url === undefined && !isEmpty(cwd)) throw new GitError(`${cwd} is not empty, and not a clone`);
    if (url !== undefined && url !== repo.url) throw new GitError(`${cwd} is another repository's clone`);
    if ((await setting(READY_KEY)) === undefined) return clone(credential);
    if ((await succeed(inClone("branch", "--show-current"))) === repo.branch) return;
    const exists = (await commitOf(`refs/heads/${repo.branch}`)) !== undefined;
    await succeed(inClone("checkout", "--quiet", ...(exists ? [] : ["-b"]), repo.branch, "--"));
  }

  /**
   * What a clone that was cut off has left is thrown away: no agent has worked in it. Nor does the credential ever meet
   * a configuration that an agent could have written.
   */
  async function clone(credential: GitCredential | null): Promise<void> {
    const access = { url: repo.url, credential };
    rmSync(gitDir, { recursive: true, force: true });
    await succeed(["init", "--quiet", cwd]);
    await succeed(inClone("config", URL_KEY, repo.url));
    await succeed(inClone("remote", "add", "origin", repo.url));
    await succeed(inClone("fetch", "--quiet", "--tags", "--no-recurse-submodules", "origin"), { access });
    await call(inClone("remote", "set-head", "origin", "--auto"), { access });
    await checkOutFirst();
    // For what the agent commits itself.
    await succeed(inClone("config", "user.name", AUTHOR.name));
    await succeed(inClone("config", "user.email", AUTHOR.email));
    await succeed(inClone("config", READY_KEY, "true"));
  }

  async function checkOutFirst(): Promise<void> {
    const start =
      (await commitOf(`refs/remotes/origin/${repo.branch}`)) ??
      (await commitOf(`refs/remotes/origin/${repo.baseBranch ?? "HEAD"}`));
    if (start !== undefined) {
      await succeed(inClone("update-ref", BASE_REF, start));
      await succeed(inClone("checkout", "--quiet", "--force", "--no-track", "-B", repo.branch, start));
      return;
    }
    if (repo.baseBranch !== undefined) throw new GitError(`the remote has no branch ${repo.baseBranch}`);
    if ((await succeed(inClone("for-each-ref", "--count=1", "refs/remotes"))) !== "") {
      throw new GitError("the remote has no default branch");
    }
    // An empty repository: the branch begins with the first commit.
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
    return head === (await commitOf(BASE_REF)) ? undefined : head;
  }

  async function push(commit: string, credential: GitCredential | null): Promise<PushOutcome> {
    const outcome = await pushOnce({ config, repo, git, describe }, commit, credential);
    if (outcome.kind === "pushed") await moveBase(commit);
    return outcome;
  }

  /** Where this fails the next turn finds the same commit to push, and the remote has it already. */
  async function moveBase(commit: string): Promise<void> {
    const args = inClone("update-ref", BASE_REF, commit);
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

  /** The turn's deadline holds for all that is done before the push is granted. */
  async function call(args: readonly string[], options: Partial<GitCall> = {}): Promise<GitResult> {
    const result = await git.run({ timeoutMs: config.maxDurationMs - uptimeMs(), ...options, args });
    if (result.timedOut) throw new GitError(describe(result), true);
    return result;
  }

  function describe({ exitCode, timedOut, stderr }: Omit<GitResult, "stdout">): string {
    if (timedOut) return "git did not end in time";
    const said = mask(stderr).trim().slice(-MAX_DETAIL_LENGTH);
    return said === "" ? `git ended with ${exitCode ?? "a signal"}` : said;
  }

  return { prepare, commit, push };
}

function isEmpty(directory: string): boolean {
  try {
    return readdirSync(directory).length === 0;
  } catch {
    // It is not there yet; where it cannot be read or is a file, git says so itself.
    return true;
  }
}
