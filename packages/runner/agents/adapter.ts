import type { Activity, AgentEvent, AgentUsage } from "@concierge/protocol";

/** What the runner needs to know about an agent: its needs, its installation, its command, its output. */
export interface AgentAdapter {
  needs: AgentNeeds;
  /** The command, looked up on the PATH. */
  program: string;
  /** How to install it, or else what to tell the user if it is missing. */
  install: Installation | { impossible: string };
  start(turn: AgentTurn): AgentRun;
}

/** What an agent needs from outside its sandbox. Read by the worker that launches the runner, not by the runner. */
export interface AgentNeeds {
  /** Hosts that the sandbox must be able to reach. */
  hosts: readonly string[];
  /** Its key: the variable it is read from, the header it is sent in, and the paths of the first host it is sent to. */
  secret?: { name: string; header: string; scheme?: string; path: string };
  /** The variable for another address of its model, and the paths below that address that get the key. */
  baseUrl?: { name: string; path: string };
}

export interface Installation {
  /** An exact version, so that every sandbox has the same one. */
  version: string;
  /** Installs into this directory, with the program in its `bin`. */
  command(directory: string): { file: string; args: readonly string[] };
}

export interface AgentTurn {
  /** The prompt is a file, because arguments are visible to all processes. */
  promptPath: string;
  /** The conversation to resume. Absent in a first turn and in a new sandbox. */
  conversationId?: string | undefined;
  /** The agent's environment, without what the run adds. */
  env: NodeJS.ProcessEnv;
  /** For files that must outlast the turn. */
  home: string;
  isRoot: boolean;
}

/** One turn of one agent. */
export interface AgentRun {
  file: string;
  args: readonly string[];
  /** Default: no standard input. */
  stdin?: "prompt";
  env?: Readonly<Record<string, string>>;
  /** Written before the start, by absolute path. They are kept, so they must not contain a secret. */
  files?: Readonly<Record<string, string>>;
  /** For an agent whose stdout is a stream of events. */
  reader?: AgentReader;
}

/** Understands an agent's stdout. It gets every line, even garbage, and must never throw. */
export interface AgentReader {
  /** A complete line, without its newline. */
  read(line: string): AgentEvent[];
  activity(): Activity;
  /** What this turn alone has used so far. Undefined if unknown. */
  usage(): AgentUsage | undefined;
  conversationId(): string | undefined;
}
