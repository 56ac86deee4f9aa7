import { variables as secrets } from "./secrets.ts";
import { type FunctionDefinition, fileNames } from "./topology.ts";
import { checkVariables } from "./variables.ts";

type Value = $util.Input<string>;

/**
 * The variables a function names, where they have a value: its secrets, what the program knows, and what is
 * set where `sst deploy` runs. An empty one is one that is not set. A file's is from where the function runs.
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
