import type { ClonePost, EndReason, FinalizePost, GitCredential, RepoConfig } from "@concierge/protocol";
import { GitError, type Repo } from "../git/repo.ts";
import type { Output } from "../output/output.ts";
import { messageOf } from "../process/errors.ts";
import { type Ending, type Supervisor, withoutExit } from "./supervise.ts";

/** How the turn went, for its end post. */
export interface WorkReport extends Ending {
  commit?: string;
  branch?: string;
  pushed?: boolean;
}

/** Resolves with the grant. Never resolves if it is refused: the turn is then ended from outside. */
export interface RequestGrant {
  (kind: "clone", post: ClonePost): Promise<GitCredential | null>;
  (kind: "finalize", post: FinalizePost): Promise<GitCredential | null>;
}

export interface WorkOptions {
  supervisor: Supervisor;
  output: Output;
  repo?: { config: RepoConfig; steps: Repo } | undefined;
  requestGrant: RequestGrant;
}

/** Clones, runs the agent, commits and pushes. */
export async function work({
  supervisor,
  output,
  repo,
  requestGrant,
}: WorkOptions): Promise<WorkReport | "push_unknown"> {
  if (repo === undefined) return runAgent();
  const { steps } = repo;
  const { branch, push } = repo.config;

  // Requested even if the clone exists: the first request wins, so a later one by the agent gets nothing.
  const credential = await requestGrant("clone", { nonce: crypto.randomUUID() });
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

  const granted = await requestGrant("finalize", { commit, branch, exitCode: 0, text: output.text() });
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

/** A step that timed out has reached the turn's deadline. */
function failed(reason: EndReason, error: unknown): Ending {
  const timedOut = error instanceof GitError && error.timedOut;
  return withoutExit(timedOut ? "deadline" : reason, messageOf(error));
}
