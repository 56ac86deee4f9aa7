/**
 * Functions as they are shipped to Lambda: each in a directory of its own, with all that it needs and nothing
 * to be resolved outside of it. The options are those SST bundles with (pkg/runtime/node/build.go of its
 * source, with `splitting`), and a few plugins more; `sst deploy` ships what this has written.
 */
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildOptions, BuildResult, Metafile, OnResolveArgs, Plugin } from "esbuild";
import { bundling, type FunctionDefinition, fileNames, type Topology } from "../../infra/topology.ts";
import { leaveOutCredentials, leaveOutUnused } from "./bundle-sdk.ts";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Where packages are looked for whose files go with a function. */
const { resolve: resolveFile } = createRequire(join(ROOT, "functions/"));

const banner = `import { createRequire as topLevelCreateRequire } from 'module';
const require = topLevelCreateRequire(import.meta.url);
import { fileURLToPath as topLevelFileUrlToPath, URL as topLevelURL } from "url"
const __filename = topLevelFileUrlToPath(import.meta.url)
const __dirname = topLevelFileUrlToPath(new topLevelURL(".", import.meta.url))
`;

const common = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: "node",
  format: "esm",
  logLevel: "silent",
} as const satisfies BuildOptions;

/** Bundles each function of a topology to `<directory>/<name>`; what is in them, by name. `plugins` are for tests. */
export async function bundleFunctions(
  topology: Topology,
  directory: string,
  plugins: readonly Plugin[] = [],
): Promise<Record<string, Metafile>> {
  const bundles = Object.entries(topology.functions).map(
    async ([name, definition]): Promise<[string, Metafile]> => {
      const out = join(directory, name);
      await rm(out, { recursive: true, force: true });
      const ours = { splitting: true, plugins: [...ourPlugins, ...plugins] };
      const metafile = await bundle(moduleOf(definition.handler), out, ours);
      await writeFiles(definition, out, plugins);
      return [name, metafile];
    },
  );
  return Object.fromEntries(await Promise.all(bundles));
}

/** The same in a directory that nothing else is above of, so that a module that is missing is missed. */
export async function bundleAside(topology: Topology) {
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

/** Bundles one module as SST would; it splits only where it is told to. */
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

/** Writes what goes with a function beside its code; the files' paths, by variable. */
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

/** One plain file; it runs where Node may be older than ours. */
async function bundleAsset(module: string, outfile: string, plugins: readonly Plugin[]): Promise<void> {
  await build({ ...common, entryPoints: [module], outfile, target: "node20", plugins: [...plugins] });
}

let underWay = 0;

/** esbuild is a process of its own, which nobody needs any more after the last build. */
async function build(options: BuildOptions): Promise<BuildResult<{ metafile: true }>> {
  const esbuild = await import("esbuild");
  underWay++;
  try {
    return await esbuild.build({ ...options, metafile: true });
  } finally {
    underWay--;
    if (underWay === 0) await esbuild.stop();
  }
}

/** SST's handlers name a file without its ending. */
function moduleOf(handler: string): string {
  return `${handler.slice(0, handler.lastIndexOf("."))}.ts`;
}

/**
 * esbuild keeps all of zod, translations and all, wherever `z` is imported by that name; as a namespace it
 * keeps what is used. Our own code imports the namespace; the provider's SDK does not.
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

/**
 * `zod/mini`, which our schemas are made with, and `zod`, which the provider's SDK and the document need, have one
 * core; and where it is loaded, all of it is that either of them uses. So `zod` gets a core of its own, and a cold
 * start loads less than half.
 */
const zodApart: Plugin = {
  name: "zod-apart",
  setup({ onResolve, onLoad, resolve }) {
    const namespace = "zod-apart";
    const find = async ({ path, kind, resolveDir }: OnResolveArgs) => {
      const found = await resolve(path, { kind, resolveDir, pluginData: namespace });
      return { ...found, path: relative(ROOT, found.path), namespace };
    };
    onResolve({ filter: /^zod$/ }, (args) => (args.pluginData === namespace ? undefined : find(args)));
    onResolve({ filter: /./, namespace }, find);
    onLoad({ filter: /./, namespace }, async ({ path }) => {
      const file = join(ROOT, path);
      return { contents: await readFile(file, "utf8"), resolveDir: dirname(file) };
    });
  },
};

const ourPlugins = [shakeZod, zodApart, leaveOutCredentials, leaveOutUnused];
