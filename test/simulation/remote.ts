import type { GitRemote } from "@concierge/core";
import type { Watch } from "./watch.ts";

export interface SimulatedRemote {
  git: GitRemote;
  head(branch: string): string | undefined;
  /** Moves a branch if it is still where the pusher saw it, as git does. */
  update(push: {
    branch: string;
    from: string | undefined;
    commit: string;
    taskId: string;
    turn: number;
  }): boolean;
  refs(): ReadonlyMap<string, string>;
}

/** A git host with one repository. A push that was sent happens even if its sender dies. */
export function createRemote(watch: Watch): SimulatedRemote {
  const refs = new Map<string, string>();
  return {
    git: { readBranch: async (_url, branch) => refs.get(branch) },
    head: (branch) => refs.get(branch),
    update({ branch, from, commit, taskId, turn }) {
      if (refs.get(branch) !== from) return false;
      watch.refMoved(taskId, turn);
      refs.set(branch, commit);
      return true;
    },
    refs: () => refs,
  };
}
