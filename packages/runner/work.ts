import type { RepoConfig } from "./config.ts";
import { messageOf } from "./errors.ts";
import type { Output } from "./output.ts";
import type { ClonePost, FinalizePost, GitCredential } from "./protocol.ts";
import { GitError, type Repo } from "./repo.ts";
import type { Ending, Supervisor } from "./supervise.ts";

/** How the turn went, for its end post. */
export interface Report extends Ending {
  commit?: string;
  branch?: string;
  pushed?: boolean;
}

export interface Asker {
  /** Resolves with the grant, and never where there is none: the turn is then ended from outside. */
  (kind: "clone", post: ClonePost): Promise<GitCredential | null>;
  (kind: "finalize", post: FinalizePost): Promise<GitCredential | null>;
}

export interface WorkOptions {
  supervisor: Supervisor;
  output: Output;
  repo?: { config: RepoConfig; steps: Repo } | undefined;
  ask: Asker;
}

/** All that is done between the launch and the end: the clone, the agent, the commit, the push. */
export async function work({ supervisor, output, repo, ask }: WorkOptions): Promise<Report | "push_unknown"> {
  if (repo === undefined) return runAgent();
  const { steps } = repo;
  const { branch, push } = repo.config;

  const { randomUUID } = process.getBuiltinModule("node:crypto");
  // Asked for in any case. The grant is for who asks first, and whoever asks after us is the agent.
  const credential = await ask("clone", { nonce: randomUUID() });
  const prepared = await attempt(() => steps.prepare(credential));
  if ("error" in prepared) return failed("clone_failed", prepared.error);

  const ending = await runAgent();
  if (ending.reason !== "exited" || ending.exitCode !== 0) return ending;

  const committed = await attempt(() => steps.commit());
  if ("error" in committed) {
    const failure = failed("runner_error", committed.error);
    return {
      ...ending,
      ...failure,
      exitCode: 0,
      detail: `the changes cannot be committed: ${failure.detail}`,
    };
  }
  const commit = committed.value;
  if (commit === undefined) return ending;
  if (!push) return { ...ending, commit, branch };

  const granted = await ask("finalize", { commit, branch, exitCode: 0, text: output.text() });
  const outcome = await steps.push(commit, granted);
  switch (outcome.kind) {
    case "pushed":
      return { ...ending, commit, branch, pushed: true };
    case "refused":
      return { ...ending, commit, branch, pushed: false, detail: outcome.detail };
    case "unknown":
      return "push_unknown";
  }

  async function runAgent(): Promise<Ending> {
    const result = await supervisor.run();
    output.end();
    return result;
  }
}

async function attempt<T>(step: () => Promise<T>): Promise<{ value: T } | { error: unknown }> {
  try {
    return { value: await step() };
  } catch (error) {
    return { error };
  }
}

/** A step that the turn's deadline ended is the deadline's end. */
function failed(reason: "clone_failed" | "runner_error", error: unknown): Ending {
  const timedOut = error instanceof GitError && error.timedOut;
  return { reason: timedOut ? "deadline" : reason, exitCode: null, signal: null, detail: messageOf(error) };
}
