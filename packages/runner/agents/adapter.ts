import type { Activity, AgentEvent, AgentUsage } from "../protocol.ts";

/** One file an agent: what it needs, how it comes into a sandbox, how it is started, what its words mean. */
export interface AgentAdapter {
  needs: AgentNeeds;
  /** The command it is started by, which must be on the PATH. */
  program: string;
  /** How it is brought into a sandbox that does not have it; where it can not be, what to tell. */
  install: Installation | { impossible: string };
  start(turn: AgentTurn): AgentRun;
}

/** What an agent needs from outside its sandbox. Read by whoever launches the runner, not by the runner. */
export interface AgentNeeds {
  /** Hosts it talks to. */
  hosts: readonly string[];
  /** Its key: the variable it is read from, and the header it goes in. It goes to the first host alone. */
  secret?: { name: string; header: string; scheme?: string };
  /** A variable that names another address to talk to. */
  baseUrl?: string;
}

export interface Installation {
  /** Exact, so that every sandbox has the same one. */
  version: string;
  /** Installs into a directory of its own, with the program in its `bin`. */
  command(directory: string): { file: string; args: readonly string[] };
}

export interface AgentTurn {
  /** A file: a prompt has no place in a process's arguments. */
  promptPath: string;
  /** To be gone on with; absent in a first turn, and where the sandbox does not have it. */
  conversationId?: string | undefined;
  /** All that the agent will have, but for what the run adds. */
  env: NodeJS.ProcessEnv;
  /** Its own directory for what must outlast the turn. */
  home: string;
  isRoot: boolean;
}

/** One turn of one agent. */
export interface AgentRun {
  file: string;
  args: readonly string[];
  /** What it reads on its standard input: its prompt, or nothing. */
  stdin?: "prompt";
  env?: Readonly<Record<string, string>>;
  /** Written before it is started, by their absolute paths. No secret may be in them: they are kept. */
  files?: Readonly<Record<string, string>>;
  /** For an agent whose stdout is a stream of events. Without one, what it prints is all there is to know. */
  reader?: AgentReader;
}

/** Understands an agent's stdout. It is given everything, also what is no event: nothing may make it throw. */
export interface AgentReader {
  /** A whole line, without its end. */
  read(line: string): AgentEvent[];
  activity(): Activity;
  /** What this turn has used so far, alone; undefined where nothing is known. */
  usage(): AgentUsage | undefined;
  conversationId(): string | undefined;
}
