import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Topology } from "../../infra/topology.ts";

/** Bundles every module the topology names as an asset; the files, by variable. */
export async function bundleAssets(
  topology: Topology,
  root: string,
  directory: string,
): Promise<Record<string, string>> {
  const modules = Object.values(topology.functions).flatMap(({ assets = {} }) => Object.entries(assets));
  if (modules.length === 0) return {};
  const { build, stop } = await import("esbuild");
  await mkdir(directory, { recursive: true });
  try {
    const files = modules.map(async ([variable, module]): Promise<[string, string]> => {
      const outfile = join(directory, `${variable}.mjs`);
      const entryPoints = [join(root, module)];
      const format = { platform: "node", target: "node20", format: "esm" } as const;
      await build({ ...format, entryPoints, outfile, bundle: true, logLevel: "silent" });
      return [variable, outfile];
    });
    return Object.fromEntries(await Promise.all(files));
  } finally {
    await stop();
  }
}
