import type { Activity } from "../protocol.ts";

/** One file an agent: how it is started, and how to tell that it works while it is silent. */
export interface AgentAdapter {
  start(turn: AgentTurn): AgentRun;
}

export interface AgentTurn {
  /** A file: a prompt has no place in a process's arguments. */
  promptPath: string;
}

/** One turn of one agent. An adapter that reads its agent's stream keeps what it understood here. */
export interface AgentRun {
  file: string;
  args: readonly string[];
  activity(): Activity;
}
