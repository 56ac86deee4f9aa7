import { bundleToTempDir } from "@concierge/bundler";
import { topology } from "../../infra/topology.ts";

/** The directory of the functions' bundles for `startConcierge`. `CONCIERGE_BUNDLES=none` runs the sources instead. */
export const BUNDLES = "CONCIERGE_BUNDLES";

/** Once for all suites that start the stack; their processes inherit the variable. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[BUNDLES] !== undefined) return undefined;
  const bundles = await bundleToTempDir(topology);
  process.env[BUNDLES] = bundles.directory;
  return async () => await bundles[Symbol.asyncDispose]();
}
