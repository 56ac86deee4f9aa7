/** What functions are run from: their sources, or the bundles that are shipped to Lambda. */
import { join } from "node:path";
import { bundling, type FunctionDefinition, fileNames, type Topology } from "../../infra/topology.ts";
import { ROOT, writeFiles } from "./bundle.ts";

export interface Code {
  name: string;
  definition: FunctionDefinition;
  /** Where its handler is, and what is relative. */
  root: string;
  handler: string;
  /** Paths of the files that go with it, by variable. */
  files: Record<string, string>;
}

/** `directory` is for what goes with them and is not in the repository as it is. */
export async function loadSources(topology: Topology, directory: string): Promise<Code[]> {
  const functions = Object.entries(topology.functions);
  return await Promise.all(
    functions.map(async ([name, definition]) => {
      const files = await writeFiles(definition, directory);
      return { name, definition, root: ROOT, handler: definition.handler, files };
    }),
  );
}

/** As on Lambda: there is nothing but the bundle, and paths are relative to it. */
export function loadBundles(topology: Topology, directory: string): Code[] {
  return Object.entries(topology.functions).map(([name, definition]) => {
    const root = join(directory, name);
    return { name, definition, root, handler: bundling.handler, files: fileNames(definition) };
  });
}
