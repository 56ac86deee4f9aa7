/** `npm run build`: builds the dashboard, bundles the functions and compares their sizes with the recorded ones. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildDashboard } from "@concierge/dashboard";
import { bundling, topology } from "../../infra/topology.ts";
import { checkVariables, VariablesError } from "../../infra/variables.ts";
import { bundleFunctions, repositoryRoot } from "./bundle.ts";
import { type BundleSize, sizeOf } from "./bundle-size.ts";

const sizesFile = join(repositoryRoot, "infra/bundle-sizes.json");

/** Growth up to this share is not reported. */
const tolerance = 0.05;

const help = `Bundles the functions into ${bundling.directory}/ for deployment: npm run build -- [options]

  --update   record their sizes in infra/bundle-sizes.json, which the tests compare with
  --help     print this text
`;

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { update: { type: "boolean" }, help: { type: "boolean" } } });
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const problem = findOversizedEnvironment();
  if (problem) {
    process.stderr.write(`${problem}\n`);
    return 1;
  }
  const bundles = await bundleFunctions(topology, join(repositoryRoot, bundling.directory));
  await buildDashboard();
  const sizes = sizesOf(bundles);
  process.stdout.write(formatSizes(sizes));
  if (values.update) {
    await writeFile(sizesFile, `${JSON.stringify(sizes, null, 2)}\n`);
    return 0;
  }
  const grown = findGrown(sizes, await recordedSizes());
  if (grown.length > 0) {
    process.stdout.write(`${grown.join("\n")}\nIf this is intended: npm run build -- --update\n`);
  }
  return 0;
}

/** Lambda limits the size of the environment, and checks it only in the middle of a deploy. */
function findOversizedEnvironment(): string | undefined {
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
  return JSON.parse(await readFile(sizesFile, "utf8"));
}

/** One line for each size that grew beyond the tolerance. */
export function findGrown(sizes: Sizes, recorded: Sizes): string[] {
  return Object.entries(sizes).flatMap(([name, size]) =>
    (["initBytes", "totalBytes"] as const).flatMap((field) => {
      const before = recorded[name]?.[field] ?? 0;
      if (size[field] <= before * (1 + tolerance)) return [];
      return [`${name}: ${field} is ${size[field]}, ${before} was recorded`];
    }),
  );
}

export function formatSizes(sizes: Sizes): string {
  const kb = (bytes: number) => `${(bytes / 1000).toFixed(0)} KB`.padStart(9);
  const rows = Object.entries(sizes).map(
    ([name, { initBytes, totalBytes, gzipBytes }]) =>
      `${name.padEnd(9)}${kb(initBytes)}${kb(totalBytes)}${kb(gzipBytes)}`,
  );
  return `${"function".padEnd(9)}${"init".padStart(9)}${"total".padStart(9)}${"gzip".padStart(9)}\n${rows.join("\n")}\n`;
}
