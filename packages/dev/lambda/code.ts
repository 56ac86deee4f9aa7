/** Where the functions run from: their sources, or the bundles that are deployed. */
import { join } from "node:path";
import { repositoryRoot, writeFiles } from "@concierge/bundler";
import { bundling, type FunctionDefinition, fileNames, type Topology } from "../../../infra/topology.ts";

export interface Code {
  name: string;
  definition: FunctionDefinition;
  /** Base of relative paths. */
  root: string;
  handler: string;
  /** Paths of the files that ship with it, by environment variable. */
  files: Record<string, string>;
}

/** Writes built assets to `directory`. */
export async function loadSources(topology: Topology, directory: string): Promise<Code[]> {
  const functions = Object.entries(topology.functions);
  return await Promise.all(
    functions.map(async ([name, definition]) => {
      const files = await writeFiles(definition, directory);
      return { name, definition, root: repositoryRoot, handler: definition.handler, files };
    }),
  );
}

/** As on Lambda, paths are relative to the bundle. */
export function loadBundles(topology: Topology, directory: string): Code[] {
  return Object.entries(topology.functions).map(([name, definition]) => {
    const root = join(directory, name);
    return { name, definition, root, handler: bundling.handler, files: fileNames(definition) };
  });
}
