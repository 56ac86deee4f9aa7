/**
 * Secrets are set with `sst secret set`, once for a stage, and reach the functions that name them alone.
 * What a function reads from `Resource` is encrypted in its bundle; what it reads from a variable is in its
 * environment, because the SDKs and the agents look for it there.
 */
import { type FunctionDefinition, secretVariables, topology } from "./topology.ts";

const definitions: FunctionDefinition[] = Object.values(topology.functions);

const linkedNames = new Set(definitions.flatMap(({ secrets }) => secrets));

export const linked = new Map([...linkedNames].map((name) => [name, new sst.Secret(name)]));

/** By variable. One that may be left out is empty until it is set. */
export const variables = new Map(
  Object.entries(secretVariables).map(([variable, { secret, isOptional }]) => [
    variable,
    isOptional ? new sst.Secret(secret, "") : new sst.Secret(secret),
  ]),
);
