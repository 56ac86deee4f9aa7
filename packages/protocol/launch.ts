import type { protocolVersion } from "./messages.ts";

/**
 * What the control plane tells a runner, as JSON in `variables.launchConfig`. A launch takes it in its environment, so that
 * it is in no file and no argument, and moves it to a file descriptor of the runner. Linux limits a variable to 128 KB, so `env` has to stay well below that.
 */
export interface LaunchConfig {
  protocol: typeof protocolVersion;
  taskId: string;
  turn: number;
  /** The control plane's base URL. */
  url: string;
  token: string;
  /** Correlates the turn's posts with the request that started it. */
  requestId?: string;
  /** The trace that the turn's posts continue. */
  traceparent?: string;
  agent: string;
  /** The turn's own directory. Default: the directory that the runner's file is in. */
  runDir?: string;
  /** The agent's working directory, relative to the one the runner is launched in. With `repo`, this is the clone. */
  cwd: string;
  maxDurationMs: number;
  inactivityMs: number;
  /** The longest silence of an agent that waits for its model or a tool. */
  activityCapMs?: number;
  maxOutputBytes: number;
  /** How much undelivered output is kept on disk before the agent is paused. */
  maxSpoolBytes?: number;
  env: Record<string, string>;
  /** Only for the agent's own process: its key and the address of its model. */
  agentEnv?: Record<string, string>;
  /** The conversation to resume, as reported by an earlier turn. */
  conversationId?: string;
  repo?: RepoConfig;
  /** What to do with processes of earlier turns. Default: keep those of this task, end those of another. */
  leftovers?: LeftoverPolicy;
  timings?: Partial<Timings>;
}

export const leftoverPolicies = ["keep", "end"] as const;
export type LeftoverPolicy = (typeof leftoverPolicies)[number];

export interface RepoConfig {
  /** Without credentials. */
  url: string;
  /** Where `branch` starts if the remote does not have it. Default: the remote's default branch. */
  baseBranch?: string | undefined;
  branch: string;
  push: boolean;
  /** The message of the commit that the runner makes. */
  message: string;
}

export interface Timings {
  /** How long a batch collects output. The turn's first batch is sent at once. */
  batchMs: number;
  beatMs: number;
  /** The longest pause after a `wait`. */
  waitMs: number;
  requestTimeoutMs: number;
  /** Between SIGTERM and SIGKILL. */
  killGraceMs: number;
  /** How long pipes that a background process holds open are read after the agent's exit. */
  pipeGraceMs: number;
  /** How long after the deadline the runner still tries to reach the control plane. */
  giveUpMs: number;
  /** The limit for one push. */
  pushMs: number;
  /** How long after the grant the runner asks the remote for the outcome of a push. */
  finalizeMs: number;
  /** How often the state file is refreshed without a change. */
  stateMs: number;
}
