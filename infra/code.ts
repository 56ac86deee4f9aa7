import "./build.ts";
import { join } from "node:path";
import { bundling, type FunctionDefinition, fileNames } from "./topology.ts";

/**
 * A function's code: the bundle that `npm run build` has made, which is what the tests run. `sst dev` runs the
 * sources, so that a change is seen at once, with the bundle's other files beside them.
 */
export function codeOf(name: string, definition: FunctionDefinition) {
  const directory = `${bundling.directory}/${name}`;
  if (!$dev) return { bundle: join($cli.paths.root, directory), handler: bundling.handler };
  const files = Object.values(fileNames(definition));
  return {
    handler: definition.handler,
    copyFiles: files.map((file) => ({ from: `${directory}/${file}`, to: file })),
  };
}
