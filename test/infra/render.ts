import { type FunctionDefinition, secretVariables, topology } from "../../infra/topology.ts";
import { evaluate, type Mutation } from "./program.ts";
import type { Program } from "./resources.ts";

const definitions: FunctionDefinition[] = Object.values(topology.functions);

/** All secrets, each with a recognisable value. */
const secretNames = [
  ...definitions.flatMap(({ secrets }) => secrets),
  ...Object.values(secretVariables).map(({ secret }) => secret),
];
export const secrets = Object.fromEntries(secretNames.map((name) => [name, `canary-${name}`]));

/** All variables that can be set where `sst deploy` runs. */
const variableNames = definitions.flatMap(({ environment }) => environment);
export const environment = Object.fromEntries(variableNames.map((name) => [name, "set"]));

export async function render(stage: string, mutate: readonly Mutation[] = []): Promise<Program> {
  return { ...(await evaluate({ stage, secrets, environment, mutate })), stage, secrets };
}
