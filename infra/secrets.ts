/**
 * Secrets are set with `sst secret set`, once per stage, and are available only to functions that name them. Those in
 * `Resource` are encrypted in the bundle. Others are environment variables, where SDKs and agents expect them.
 */
import { type FunctionDefinition, secretVariables, topology } from "./topology.ts";

const definitions: FunctionDefinition[] = Object.values(topology.functions);

const linkedNames = new Set(definitions.flatMap(({ secrets }) => secrets));

export const linked = new Map([...linkedNames].map((name) => [name, new sst.Secret(name)]));

/** By variable. Optional ones are empty until they are set. */
export const variables = new Map(
  Object.entries(secretVariables).map(([variable, { secret, isOptional }]) => [
    variable,
    isOptional ? new sst.Secret(secret, "") : new sst.Secret(secret),
  ]),
);
