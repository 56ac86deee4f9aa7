/**
 * Bundles each function into its own directory, with everything it needs. `sst deploy` ships these directories.
 * The options are SST's own (pkg/runtime/node/build.go, with `splitting`), plus the plugin `shakeZod`.
 */
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildOptions, BuildResult, Metafile, Plugin } from "esbuild";
import { bundling, type FunctionDefinition, fileNames, type Topology } from "../../infra/topology.ts";
import { requireBuiltIns } from "./require-built-ins.ts";

export const repositoryRoot = fileURLToPath(new URL("../../", import.meta.url));

/** Resolves the files of packages that ship with a function. */
const { resolve: resolveFile } = createRequire(join(repositoryRoot, "functions/"));

const banner = `import { createRequire as topLevelCreateRequire } from 'module';
const require = topLevelCreateRequire(import.meta.url);
import { fileURLToPath as topLevelFileUrlToPath, URL as topLevelURL } from "url"
const __filename = topLevelFileUrlToPath(import.meta.url)
const __dirname = topLevelFileUrlToPath(new topLevelURL(".", import.meta.url))
`;

const common = {
  absWorkingDir: repositoryRoot,
  bundle: true,
  platform: "node",
  format: "esm",
  logLevel: "silent",
} as const satisfies BuildOptions;

/** Bundles each function to `<directory>/<name>` and returns the metafiles by name. `plugins` are for tests. */
export async function bundleFunctions(
  topology: Topology,
  directory: string,
  plugins: readonly Plugin[] = [],
): Promise<Record<string, Metafile>> {
  const bundles = Object.entries(topology.functions).map(
    async ([name, definition]): Promise<[string, Metafile]> => {
      const out = join(directory, name);
      await rm(out, { recursive: true, force: true });
      const options = { splitting: true, plugins: [shakeZod, ...plugins] };
      const metafile = await bundle(moduleOf(definition.handler), out, options);
      await writeFiles(definition, out, plugins);
      return [name, metafile];
    },
  );
  return Object.fromEntries(await Promise.all(bundles));
}

/** Bundles to a temporary directory. It has no `node_modules` above it, so a missing module fails to load. */
export async function bundleToTempDir(topology: Topology) {
  const directory = await mkdtemp(join(tmpdir(), "concierge-bundles-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const metafiles = await bundleFunctions(topology, directory);
    return { directory, metafiles, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Bundles one module as SST would. SST does not split by default. */
export async function bundle(
  module: string,
  directory: string,
  { splitting, plugins = [] }: { splitting: boolean; plugins?: readonly Plugin[] },
): Promise<Metafile> {
  const { metafile } = await build({
    ...common,
    entryPoints: [module],
    outdir: directory,
    entryNames: "bundle",
    outExtension: { ".js": ".mjs" },
    splitting,
    minify: true,
    keepNames: true,
    target: bundling.target,
    mainFields: ["module", "main"],
    external: ["sharp", "pg-native"],
    banner: { js: banner },
    plugins: [...plugins],
  });
  return metafile;
}

/** Writes the files that ship with a function and returns their paths by environment variable. */
export async function writeFiles(
  definition: FunctionDefinition,
  directory: string,
  plugins: readonly Plugin[] = [],
): Promise<Record<string, string>> {
  const { assets = {}, files = {} } = definition;
  const names = Object.entries(fileNames(definition));
  const paths = Object.fromEntries(names.map(([variable, name]) => [variable, join(directory, name)]));
  await mkdir(directory, { recursive: true });
  await Promise.all(
    names.map(async ([variable, name]) => {
      const outfile = join(directory, name);
      const { [variable]: module } = assets;
      const { [variable]: file } = files;
      if (module) await bundleAsset(module, outfile, plugins);
      if (file) await copyFile(resolveFile(file), outfile);
    }),
  );
  return paths;
}

/** One file without imports. It runs in the sandbox, where Node may be older. */
export async function bundleAsset(
  module: string,
  outfile: string,
  plugins: readonly Plugin[] = [],
): Promise<Metafile> {
  const options = {
    entryPoints: [module],
    outfile,
    target: "node20",
    plugins: [requireBuiltIns, ...plugins],
  };
  const { metafile } = await build({ ...common, ...options });
  return metafile;
}

let buildsRunning = 0;

/** esbuild runs as a child process. Stop it after the last build, so that it does not outlive its use. */
export async function build(options: BuildOptions): Promise<BuildResult<{ metafile: true }>> {
  const esbuild = await import("esbuild");
  buildsRunning++;
  try {
    return await esbuild.build({ ...options, metafile: true });
  } finally {
    buildsRunning--;
    if (buildsRunning === 0) await esbuild.stop();
  }
}

/** A handler is `path/to/module.export`, without `.ts`. */
function moduleOf(handler: string): string {
  return `${handler.slice(0, handler.lastIndexOf("."))}.ts`;
}

/**
 * esbuild keeps all of zod, with every locale, for `import { z } from "zod"`, but shakes `import * as z`
 * (https://github.com/colinhacks/zod/issues/6597). Our code uses the second form; the provider's SDK does not.
 * This saves 329 KB of 757 KB in the init of Api and 17 ms of its cold start.
 */
const shakeZod: Plugin = {
  name: "shake-zod",
  setup({ onLoad }) {
    onLoad({ filter: /@vercel[\\/]sandbox[\\/]dist[\\/].*\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      return {
        contents: text.replace('import { z } from "zod";', 'import * as z from "zod";'),
        loader: "js",
      };
    });
  },
};
