import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { variables } from "@concierge/protocol";
import type { TurnConfig } from "../turn/config.ts";
import { markersOf } from "./processes.ts";

/** For the turn's processes. The token stays with the runner. The markers come last, so that `env` cannot hide them. */
export function turnEnvironment(config: TurnConfig): NodeJS.ProcessEnv {
  const inherited = { ...process.env };
  delete inherited[variables.launchConfig];
  return { ...inherited, ...config.env, ...markersOf(config) };
}

/** For the agent. `agentEnv` wins over the turn's `env`. */
export function agentEnvironment(config: TurnConfig): NodeJS.ProcessEnv {
  return { ...turnEnvironment(config), ...config.agentEnv, ...markersOf(config) };
}

/** Where agents are installed and keep their data between turns. In the user's home, so that snapshots keep it. */
export function homeOf({ env }: TurnConfig): string {
  return join(env.HOME ?? process.env.HOME ?? homedir(), ".concierge");
}

/** Appends the directory's `bin`, so that programs of the sandbox come first. */
export function withPath(env: NodeJS.ProcessEnv, directory: string | undefined): NodeJS.ProcessEnv {
  if (directory === undefined) return env;
  return { ...env, PATH: [env.PATH, join(directory, "bin")].filter(Boolean).join(delimiter) };
}
