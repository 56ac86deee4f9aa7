import { CONFIG_VARIABLE, type TurnConfig } from "./config.ts";
import { markersOf } from "./processes.ts";

const { homedir } = process.getBuiltinModule("node:os");
const { delimiter, join } = process.getBuiltinModule("node:path");

/** What the turn's processes have. The token stays with the runner; the markers come last so that no `env` hides them. */
export function turnEnvironment(config: TurnConfig): NodeJS.ProcessEnv {
  const inherited = { ...process.env };
  delete inherited[CONFIG_VARIABLE];
  return { ...inherited, ...config.env, ...markersOf(config) };
}

/** The agent's: with what is for it alone, which the turn's `env` does not change. */
export function agentEnvironment(config: TurnConfig): NodeJS.ProcessEnv {
  return { ...turnEnvironment(config), ...config.agentEnv, ...markersOf(config) };
}

/** Where agents are installed and keep what outlasts a turn: with the user's own files, so that it is kept as they are. */
export function homeOf({ env }: TurnConfig): string {
  return join(env.HOME ?? process.env.HOME ?? homedir(), ".concierge");
}

/** What is in the sandbox anyway comes first. */
export function withPath(env: NodeJS.ProcessEnv, directory: string | undefined): NodeJS.ProcessEnv {
  if (directory === undefined) return env;
  return { ...env, PATH: [env.PATH, join(directory, "bin")].filter(Boolean).join(delimiter) };
}
