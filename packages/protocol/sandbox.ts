import type * as z from "zod/mini";
import type { stateFileSchema } from "./schemas/state.ts";

/** Holds one run directory per turn. */
export const runDirs = "/tmp/concierge";

/** In `runDirs`: the name of the run directory that was uploaded last. A late sweep of an earlier turn reads it. */
export const currentFile = "current";

/** In a run directory. */
export const runFiles = {
  /** Uploaded. */
  runner: "runner.mjs",
  /** Uploaded. */
  prompt: "prompt",
  /** Written by the launch script, so that a turn is launched at most once. */
  launched: "launched",
  /** Written by the runner, see `StateFile`. */
  state: "state.json",
} as const;

/** The name of a turn's run directory. */
export function runDirName({ taskId, turn }: { taskId: string; turn: number }): string {
  return `${taskId}-${turn}`;
}

/** Where the runner reads its `LaunchConfig`, as JSON. `hide-config.sh` moves it here from the launch's environment. */
export const launchConfigFd = 3;

export const variables = {
  /** In the launch's environment: the `LaunchConfig` as JSON. */
  launchConfig: "CONCIERGE_TURN",
  /** In the environment of every process of the turn. A sweep finds processes that left their group by these two. */
  taskId: "CONCIERGE_TASK",
  turnNumber: "CONCIERGE_TURN_NUMBER",
  /** Set by a provider that cannot give a sandbox its own processes: /proc shows the machine's, and this tells them apart. */
  processMark: "SANDBOX_PROCESS_MARK",
} as const;

/**
 * Replaced atomically, at most once a second and at least every ten seconds. If `at` is older than that, the runner is
 * dead or suspended. Output is undelivered while `ackedSeq` is below `producedSeq`.
 */
export interface StateFile extends z.infer<typeof stateFileSchema> {
  at: string;
  pid: number;
  agentPid: number | null;
}

/** The runner's exit codes. */
export const runnerExit = {
  /** The end was reported and accepted. */
  done: 0,
  /** The control plane said stop. The agent is dead. */
  stopped: 10,
  /** The control plane was unreachable until `giveUpMs` after the deadline. The agent is dead. */
  gaveUp: 11,
  /** The remote did not say whether it accepted the push. Nothing was reported. */
  pushUnknown: 12,
  badConfig: 64,
  runnerError: 70,
  /** A signal ended the runner. The agent is dead, nothing was reported. */
  signalled: 143,
} as const;
