import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** One ref that a push moved. `from` is undefined if it was new, `to` if it was deleted. */
export interface RefUpdate {
  repo: string;
  ref: string;
  from: string | undefined;
  to: string | undefined;
  at: Date;
}

export interface LoggedCommit {
  commit: string;
  /** `Name <address>`, same as the committer. */
  author: string;
  committer: string;
  message: string;
}

/** Bare repositories in their own directory, read and written without a clone. */
export interface Repos extends Disposable {
  root: string;
  create(repo: string, defaultBranch: string): void;
  /** Commits to the branch; a new branch starts at the default branch. */
  commit(repo: string, branch: string, files: Record<string, string>): string;
  branch(repo: string, name: string): string | undefined;
  log(repo: string, ref: string): LoggedCommit[];
  show(repo: string, ref: string, path: string): string | undefined;
  /** What pushes really did, in order, without `commit`. */
  updates(): RefUpdate[];
}

/** Keeps the developer's own git configuration out of the tests. */
export const gitEnvironment = {
  PATH: process.env.PATH,
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  GIT_AUTHOR_NAME: "Origin",
  GIT_AUTHOR_EMAIL: "origin@localhost",
  GIT_COMMITTER_NAME: "Origin",
  GIT_COMMITTER_EMAIL: "origin@localhost",
};

const NO_COMMIT = /^0+$/;

export function createRepos(): Repos {
  const root = mkdtempSync(join(tmpdir(), "concierge-git-server-"));
  const updatesPath = join(root, "updates.log");
  writeFileSync(updatesPath, "");

  function git(repo: string, args: string[], options: { input?: string; index?: string } = {}): string {
    return execFileSync("git", ["--git-dir", join(root, `${repo}.git`), ...args], {
      encoding: "utf8",
      env: { ...gitEnvironment, ...(options.index && { GIT_INDEX_FILE: options.index }) },
      input: options.input ?? "",
      stdio: ["pipe", "pipe", "pipe"],
    });
  }

  function tryGit(repo: string, args: string[]): string | undefined {
    try {
      return git(repo, args);
    } catch {
      return undefined;
    }
  }

  function commitOf(repo: string, ref: string): string | undefined {
    return tryGit(repo, ["rev-parse", "--verify", "--quiet", `${ref}^{commit}`])?.trim();
  }

  return {
    root,
    create(repo, defaultBranch) {
      git(repo, ["init", "--quiet", "--bare", "--template=", `--initial-branch=${defaultBranch}`]);
      const hook = join(root, `${repo}.git`, "hooks", "post-receive");
      mkdirSync(join(hook, ".."));
      const line = `"${repo} $from $to $ref $(date +%s%3N)"`;
      writeFileSync(
        hook,
        `#!/bin/sh\nwhile read -r from to ref; do echo ${line} >> '${updatesPath}'; done\n`,
      );
      chmodSync(hook, 0o755);
    },
    commit(repo, branch, files) {
      const index = join(root, "index");
      const parent = commitOf(repo, `refs/heads/${branch}`) ?? commitOf(repo, "HEAD");
      git(repo, ["read-tree", parent ?? "--empty"], { index });
      for (const [path, input] of Object.entries(files)) {
        const blob = git(repo, ["hash-object", "-w", "--stdin"], { input }).trim();
        git(repo, ["update-index", "--add", "--cacheinfo", `100644,${blob},${path}`], { index });
      }
      const tree = git(repo, ["write-tree"], { index }).trim();
      const parents = parent === undefined ? [] : ["-p", parent];
      const commit = git(repo, ["commit-tree", tree, ...parents], { input: "On the remote\n" }).trim();
      git(repo, ["update-ref", `refs/heads/${branch}`, commit]);
      return commit;
    },
    branch: (repo, name) => commitOf(repo, `refs/heads/${name}`),
    log(repo, ref) {
      const text = tryGit(repo, ["log", "-z", "--format=%H%n%an <%ae>%n%cn <%ce>%n%B", ref]) ?? "";
      return text.split("\0").flatMap((entry) => {
        const [commit, author, committer, ...message] = entry.split("\n");
        if (!commit || author === undefined || committer === undefined) return [];
        return [{ commit, author, committer, message: message.join("\n").trimEnd() }];
      });
    },
    show: (repo, ref, path) => tryGit(repo, ["cat-file", "blob", `${ref}:${path}`]),
    updates: () => readFileSync(updatesPath, "utf8").split("\n").flatMap(parseUpdate),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

function parseUpdate(line: string): RefUpdate[] {
  const [repo, from, to, ref, at] = line.split(" ");
  if (!repo || from === undefined || to === undefined || ref === undefined) return [];
  const orNone = (commit: string) => (NO_COMMIT.test(commit) ? undefined : commit);
  return [{ repo, ref, from: orNone(from), to: orNone(to), at: new Date(Number(at)) }];
}
