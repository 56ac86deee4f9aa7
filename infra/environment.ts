import { variables as secrets } from "./secrets.ts";
import { type FunctionDefinition, fileNames } from "./topology.ts";
import { checkVariables } from "./variables.ts";

type Value = $util.Input<string>;

/**
 * The variables of a function that have a value: its secrets, values of this program, and values from the environment of
 * `sst deploy`. Empty counts as not set. Paths of files are relative to the function's directory.
 */
export function environmentOf(name: string, definition: FunctionDefinition, known: Record<string, Value>) {
  checkVariables(name, definition, process.env);
  const named = definition.environment.map((variable) => [variable, lookUp(variable, known)] as const);
  return $resolve({ ...Object.fromEntries(named), ...fileNames(definition) }).apply((values) =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")),
  );
}

function lookUp(name: string, known: Record<string, Value>): Value {
  return secrets.get(name)?.value ?? known[name] ?? process.env[name] ?? "";
}
