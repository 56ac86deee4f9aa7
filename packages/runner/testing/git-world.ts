import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { RepoConfig } from "@concierge/protocol";
import { type GitServer, startGitServer } from "../../../test/testing/git-server.ts";
import { FakeConcierge } from "./concierge.ts";
import { allPids, type Bundle, type RunOptions, Turn } from "./runner.ts";

/** Scripts that an agent runs in a clone. */
export const change = "echo more > file.txt";
export const ownCommit = `${change}; git add -A; git commit -qm 'By the agent'`;

export interface GitTurnOptions extends Omit<RunOptions, "repo"> {
  repo?: Partial<RepoConfig>;
}

/** A git server with a repository `app`, and a Concierge that grants the credential for it. */
export class GitWorld implements AsyncDisposable {
  readonly server: GitServer;
  readonly concierge: FakeConcierge;

  private constructor(server: GitServer, concierge: FakeConcierge) {
    this.server = server;
    this.concierge = concierge;
  }

  static async start(files?: Record<string, string>): Promise<GitWorld> {
    const server = await startGitServer();
    server.createRepo("app", files && { files });
    const concierge = await FakeConcierge.start();
    concierge.credential = { username: server.username, token: server.token };
    return new GitWorld(server, concierge);
  }

  /** A turn on the branch `work`, with push. */
  turn(bundle: Bundle, script: string, { repo, ...options }: GitTurnOptions = {}): Turn {
    const url = `${this.server.url}/app.git`;
    const config = { url, branch: "work", push: true, message: "Do the task", ...repo };
    return new Turn(bundle, this.concierge, script, { ...options, repo: config });
  }

  /** The remote's commit of the branch `work`. */
  get pushed(): string | undefined {
    return this.server.branch("app", "work");
  }

  get pushRequests(): number {
    return this.server.requests.filter(({ path }) => path.endsWith("/git-receive-pack")).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.concierge[Symbol.asyncDispose]();
    await this.server.close();
  }
}

export function everyCommandLine(): string {
  return allPids()
    .map((pid) => readOrEmpty(`/proc/${pid}/cmdline`))
    .join("\n");
}

export function everyFile(directory: string): string {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readOrEmpty(join(entry.parentPath, entry.name)))
    .join("\n");
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
