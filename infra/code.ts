import "./build.ts";
import { join } from "node:path";
import { bundling, type FunctionDefinition, fileNames } from "./topology.ts";

/**
 * A function's code: the bundle of `npm run build`, which the tests also run. `sst dev` runs the sources instead, with the
 * bundle's other files beside them, so that changes take effect at once.
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
