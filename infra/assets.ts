import { join, relative } from "node:path";
import { buildSync } from "esbuild";

/**
 * Bundles a module to one plain file that a function is shipped with, as the local stack does. Its path from
 * the root is for `copyFiles`, which `sst dev` heeds as well as `sst deploy`.
 */
export function bundleAsset(variable: string, module: string): string {
  const { root, work } = $cli.paths;
  const outfile = join(work, "assets", `${variable}.mjs`);
  const format = { platform: "node", target: "node20", format: "esm" } as const;
  buildSync({ ...format, entryPoints: [join(root, module)], outfile, bundle: true, logLevel: "silent" });
  return relative(root, outfile);
}
