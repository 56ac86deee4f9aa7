/**
 * Builds the packages that people install from npm. Inside this repository Node runs the TypeScript sources, but it
 * does not strip types under `node_modules`, so an installed package needs JavaScript and declaration files.
 *
 * A build writes a complete package to a directory: `dist/`, README, LICENSE and a `package.json` whose `exports` name
 * the built files. Other `@concierge` packages are bundled in; packages from npm become dependencies.
 */
import { execFile } from "node:child_process";
import { cp, glob, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { basename, dirname, join, parse, posix, relative } from "node:path";
import { promisify } from "node:util";
import type { Metafile } from "esbuild";
import { build, repositoryRoot } from "./bundle.ts";

interface PublicPackage {
  /** Its name on npm, if it differs from the workspace's. */
  name?: string;
  /** Runs without Node. */
  isNeutral?: boolean;
  /** Files that the code finds beside itself at run time. */
  assets?: Readonly<Record<string, string>>;
}

/** By their folder in `packages/`. */
const publicPackages: Readonly<Record<string, PublicPackage>> = {
  client: { isNeutral: true },
  cli: { name: "concierge" },
  sessions: {},
  "vercel-sandbox-local": { assets: { "isolation/init": "dist/init" } },
};

interface Manifest {
  name: string;
  version: string;
  description?: string;
  license: string;
  exports: Record<string, string>;
  bin?: Record<string, string>;
  dependencies?: Record<string, string>;
}

const run = promisify(execFile);
const packages = join(repositoryRoot, "packages");

/** Builds every public package and packs it. Returns the tarballs' paths by package name. */
export async function packPackages(directory: string): Promise<Record<string, string>> {
  const tarballs: Record<string, string> = {};
  for (const folder of Object.keys(publicPackages)) {
    const out = join(directory, folder);
    const name = await buildPackage(folder, out);
    const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", directory], { cwd: out });
    tarballs[name] = join(directory, JSON.parse(stdout)[0].filename);
  }
  return tarballs;
}

/** Returns the name of the package. */
async function buildPackage(folder: string, out: string): Promise<string> {
  const source = join(packages, folder);
  const manifest = await readManifest(source);
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const [metafile] = await Promise.all([
    bundleEntries(manifest, source, out, publicPackages[folder]?.isNeutral ?? false),
    writeTypes(manifest, source, out),
    ...Object.entries(publicPackages[folder]?.assets ?? {}).map(([from, to]) =>
      cp(join(source, from), join(out, to), { recursive: true }),
    ),
    cp(join(source, "README.md"), join(out, "README.md")),
    cp(join(repositoryRoot, "LICENSE"), join(out, "LICENSE")),
  ]);
  const published = await publishedManifest(manifest, folder, metafile);
  await writeFile(join(out, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  return published.name;
}

async function bundleEntries(
  manifest: Manifest,
  source: string,
  out: string,
  isNeutral: boolean,
): Promise<Metafile> {
  const entries = [...Object.values(manifest.exports), ...Object.values(manifest.bin ?? {})];
  const { metafile } = await build({
    absWorkingDir: repositoryRoot,
    entryPoints: entries.map((path) => ({ in: join(source, path), out: withoutExtension(path) })),
    outdir: join(out, "dist"),
    bundle: true,
    splitting: true,
    platform: isNeutral ? "neutral" : "node",
    format: "esm",
    target: isNeutral ? "es2022" : "node22.18",
    sourcemap: true,
    logLevel: "silent",
    plugins: [
      {
        name: "npm-packages-external",
        setup({ onResolve }) {
          onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
            kind === "entry-point" || path.startsWith("@concierge/") ? undefined : { external: true },
          );
        },
      },
    ],
  });
  return metafile;
}

/** Declarations of the package and of the `@concierge` packages in it, with relative imports between them. */
async function writeTypes(manifest: Manifest, source: string, out: string): Promise<void> {
  const types = join(out, "dist/types");
  const config = join(out, "tsconfig.json");
  const modules = await workspaceModules();
  const compilerOptions = {
    noEmit: false,
    noCheck: true,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: packages,
    outDir: types,
    typeRoots: [join(repositoryRoot, "node_modules/@types")],
    // Without these, tsc takes workspace packages for installed ones and writes no declarations for them.
    paths: Object.fromEntries(Object.entries(modules).map(([name, file]) => [name, [file]])),
  };
  const files = Object.values(manifest.exports).map((path) => join(source, path));
  const extend = join(repositoryRoot, "tsconfig.json");
  await writeFile(config, JSON.stringify({ extends: extend, compilerOptions, files, include: [] }));
  await run(join(repositoryRoot, "node_modules/.bin/tsc"), ["-p", config]);
  await rm(config);
  for await (const name of glob("**/*.d.ts", { cwd: types })) {
    const file = join(types, name);
    const text = await readFile(file, "utf8");
    await writeFile(
      file,
      text.replace(/(?<=\b(?:from |import\(|import ))"([^"]+)"/g, (_, to) => quote(to, file)),
    );
  }

  function quote(specifier: string, file: string): string {
    const module = modules[specifier];
    const target = module ? relative(dirname(file), join(types, relative(packages, module))) : specifier;
    const isRelative = module || specifier.startsWith(".");
    return JSON.stringify(isRelative ? target.replace(/^(?!\.)/, "./").replace(/\.ts$/, ".js") : specifier);
  }
}

/** The source file behind each specifier that a workspace package exports. */
async function workspaceModules(): Promise<Record<string, string>> {
  const modules: Record<string, string> = {};
  for (const folder of await readdir(packages)) {
    const { name, exports } = await readManifest(join(packages, folder));
    for (const [subpath, file] of Object.entries(exports)) {
      modules[posix.join(name, subpath)] = join(packages, folder, file);
    }
  }
  return modules;
}

async function publishedManifest(manifest: Manifest, folder: string, metafile: Metafile) {
  const { version, description, license, exports, bin = {} } = manifest;
  const built = (path: string) => `./dist/${withoutExtension(path)}.js`;
  const entry = (path: string) => ({
    types: `./dist/types/${folder}/${withoutExtension(path)}.d.ts`,
    default: built(path),
  });
  return {
    name: publicPackages[folder]?.name ?? manifest.name,
    version,
    description,
    license,
    type: "module",
    engines: { node: ">=22.18" },
    exports: Object.fromEntries(Object.entries(exports).map(([subpath, path]) => [subpath, entry(path)])),
    bin: Object.fromEntries(Object.entries(bin).map(([command, path]) => [command, built(path)])),
    dependencies: await dependenciesOf(metafile),
  };
}

function withoutExtension(path: string): string {
  const { dir, name } = parse(path);
  return posix.join(dir, name);
}

/** The npm packages that the bundle imports, at the versions of the workspace package that imports each. */
async function dependenciesOf({ inputs }: Metafile): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [input, { imports }] of Object.entries(inputs)) {
    const { dependencies = {} } = await readManifest(join(repositoryRoot, ...input.split("/").slice(0, 2)));
    for (const { path, external } of imports) {
      if (!external || !isNpmPackage(path)) continue;
      const name = path.split("/", path.startsWith("@") ? 2 : 1).join("/");
      const version = dependencies[name];
      if (!version) throw new Error(`${input} imports ${name}, which is not a dependency of its package`);
      found[name] = version;
    }
  }
  return found;
}

/** Not a module of Node, nor esbuild's own `<runtime>`. */
function isNpmPackage(specifier: string): boolean {
  return /^[a-z@]/.test(specifier) && !isBuiltin(specifier);
}

async function readManifest(directory: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
}

export async function main(): Promise<void> {
  const tarballs = await packPackages(join(repositoryRoot, "dist/packages"));
  for (const path of Object.values(tarballs)) process.stdout.write(`dist/packages/${basename(path)}\n`);
}
