/** `npm run build`: bundles the functions as they are shipped, and says how large they are. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundling, topology } from "../../infra/topology.ts";
import { checkVariables, VariablesError } from "../../infra/variables.ts";
import { bundleFunctions, ROOT } from "./bundle.ts";
import { type BundleSize, sizeOf } from "./bundle-size.ts";

export const SIZES_FILE = join(ROOT, "infra/bundle-sizes.json");

/** What a bundle may grow by before it has to be said. */
const TOLERANCE = 0.05;

const HELP = `Bundles the functions into ${bundling.directory}/, as they are shipped: npm run build -- [options]

  --update   keep their sizes in infra/bundle-sizes.json, which the tests compare with
  --help     this text
`;

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { update: { type: "boolean" }, help: { type: "boolean" } } });
  if (values.help) {
    say(HELP);
    return 0;
  }
  const tooLarge = findTooLarge();
  if (tooLarge) {
    process.stderr.write(`${tooLarge}\n`);
    return 1;
  }
  const bundles = await bundleFunctions(topology, join(ROOT, bundling.directory));
  const sizes = sizesOf(bundles);
  say(formatSizes(sizes));
  if (values.update) {
    await writeFile(SIZES_FILE, `${JSON.stringify(sizes, null, 2)}\n`);
    return 0;
  }
  const grown = findGrown(sizes, await recordedSizes());
  if (grown.length > 0) say(`${grown.join("\n")}\nIf that is meant: npm run build -- --update\n`);
  return 0;
}

/** Lambda would refuse it in the middle of a deploy. */
function findTooLarge(): string | undefined {
  try {
    for (const [name, definition] of Object.entries(topology.functions))
      checkVariables(name, definition, process.env);
    return undefined;
  } catch (error) {
    if (error instanceof VariablesError) return error.message;
    throw error;
  }
}

export type Sizes = Record<string, BundleSize>;

export function sizesOf(bundles: Awaited<ReturnType<typeof bundleFunctions>>): Sizes {
  return Object.fromEntries(Object.entries(bundles).map(([name, metafile]) => [name, sizeOf(metafile)]));
}

export async function recordedSizes(): Promise<Sizes> {
  return JSON.parse(await readFile(SIZES_FILE, "utf8"));
}

/** One line for each size that is more than was recorded, beyond what may be. */
export function findGrown(sizes: Sizes, recorded: Sizes): string[] {
  return Object.entries(sizes).flatMap(([name, size]) =>
    (["initBytes", "totalBytes"] as const).flatMap((what) => {
      const before = recorded[name]?.[what] ?? 0;
      if (size[what] <= before * (1 + TOLERANCE)) return [];
      return [`${name}: ${what} is ${size[what]}, ${before} was recorded`];
    }),
  );
}

export function formatSizes(sizes: Sizes): string {
  const kb = (bytes: number) => `${(bytes / 1000).toFixed(0)} KB`.padStart(9);
  const rows = Object.entries(sizes).map(
    ([name, { initBytes, totalBytes, gzipBytes }]) =>
      `${name.padEnd(9)}${kb(initBytes)}${kb(totalBytes)}${kb(gzipBytes)}`,
  );
  return `${"function".padEnd(9)}${"init".padStart(9)}${"all".padStart(9)}${"gzip".padStart(9)}\n${rows.join("\n")}\n`;
}

function say(text: string): void {
  process.stdout.write(text);
}
