/**
 * The SST program without AWS: `evaluate({ stage })` bundles the real `sst.config.ts` as the CLI does, runs it
 * under Pulumi's mocks in a process of its own, and gives every resource it registered with its inputs:
 *
 *   const { resources } = await evaluate({ stage: "production" });
 *   resources.filter(({ type }) => type === "aws:cloudwatch/metricAlarm:MetricAlarm")
 *
 * `mutate` changes the source of a module on its way into the bundle, for tests of the checks themselves. It
 * needs `.sst/platform`: `npm run infra:install`.
 */
import { fork } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const root = fileURLToPath(new URL("../../", import.meta.url));
const platform = join(root, ".sst/platform");
/** Compiled modules: loading Pulumi takes most of an evaluation. */
const cache = join(root, "node_modules/.cache/infra");

/** The CLI leaves these out of the bundle. */
const external = [
  "@pulumi/*",
  "undici",
  "@pulumiverse/*",
  "@aws-sdk/*",
  "esbuild",
  "archiver",
  "glob",
  "vite",
];

export interface Resource {
  type: string;
  name: string;
  inputs: Record<string, unknown>;
  /** The inputs without values that Pulumi knows to be secret. */
  shown: Record<string, unknown>;
  isRetained: boolean;
}

/** What the CLI is asked to bundle for a function. */
export interface Build {
  functionID: string;
  handler: string;
  /** The contents of `Resource`, by name; encrypted in the bundle. */
  links: Record<string, Record<string, unknown>>;
  /** A directory that is bundled already. */
  bundle?: string;
}

export interface Evaluated {
  app: { name: string; removal: string; protect: boolean; home: string };
  resources: Resource[];
  builds: Build[];
}

/** One place in a module's source, and its replacement. */
export interface Mutation {
  file: string;
  from: string;
  to: string;
}

export interface Options {
  stage: string;
  /** By name, as with `sst secret set`. */
  secrets?: Record<string, string>;
  /** The environment of `sst deploy`. */
  environment?: Record<string, string>;
  mutate?: readonly Mutation[];
  deadlineMs?: number;
}

/** The secrets without which a stage cannot be deployed; set by default. */
export const requiredSecrets = {
  AdminApiKey: "secret-AdminApiKey",
  SealingKey: "secret-SealingKey",
  VercelToken: "secret-VercelToken",
  VercelTeamId: "secret-VercelTeamId",
  VercelProjectId: "secret-VercelProjectId",
};

export async function evaluate(options: Options): Promise<Evaluated> {
  const { stage, secrets = requiredSecrets, environment, mutate = [], deadlineMs = 60_000 } = options;
  if (!existsSync(join(platform, "config.d.ts")))
    throw new Error("there is no .sst/platform: `npm run infra:install` makes it");
  const directory = await mkdtemp(join(tmpdir(), "concierge-infra-"));
  try {
    await symlink(join(platform, "node_modules"), join(directory, "node_modules"));
    await bundle(join(directory, "program.mjs"), mutate);
    const set = Object.entries(secrets).map(([name, value]) => [`SST_SECRET_${name}`, value]);
    return await run(directory, stage, { ...environment, ...Object.fromEntries(set) }, deadlineMs);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function bundle(outfile: string, mutations: readonly Mutation[]): Promise<void> {
  const contents = `
    export { default as config } from ${JSON.stringify(join(root, "sst.config.ts"))};
    export { run } from ${JSON.stringify(join(platform, "src/auto/run.ts"))};`;
  await build({
    stdin: { contents, resolveDir: root, loader: "ts" },
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    mainFields: ["module", "main"],
    nodePaths: [join(platform, "node_modules")],
    external,
    inject: [join(platform, "src/shim/run.js")],
    define: { $app: "globalThis.$app", $cli: "globalThis.$cli", $dev: "false" },
    banner: { js: requireBanner },
    plugins: [globals(mutations)],
    logLevel: "silent",
  });
}

const requireBanner = `
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
const __filename = import.meta.filename;
const __dirname = import.meta.dirname;`;

/** Imports `aws` and `sst` into each of our modules, as the CLI does, then mutates the module. */
function globals(mutations: readonly Mutation[]): Plugin {
  const left = new Set(mutations);
  return {
    name: "globals",
    setup({ onLoad, onEnd }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.includes("/.sst/")) return undefined;
        // Bundles have their own tests.
        if (path === join(root, "infra/build.ts")) return { contents: "" };
        let contents = await readFile(path, "utf8");
        for (const mutation of mutations.filter(({ file }) => path === join(root, file))) {
          contents = changed(contents, mutation);
          left.delete(mutation);
        }
        const components = JSON.stringify(join(platform, "src/components"));
        const imports = `import * as aws from "@pulumi/aws"; import * as sst from ${components};`;
        return { contents: `${imports}\n${contents}`, loader: "ts" };
      });
      onEnd(() => {
        for (const { file } of left) throw new Error(`${file} is no part of the program`);
      });
    },
  };
}

function changed(text: string, { file, from, to }: Mutation): string {
  const places = text.split(from).length - 1;
  if (places !== 1) throw new Error(`${file} has ${places} places with: ${from}`);
  return text.replace(from, () => to);
}

/** A rejected `apply` leaves its dependents pending forever: hence the deadline. */
function run(
  directory: string,
  stage: string,
  environment: Record<string, string>,
  deadlineMs: number,
): Promise<Evaluated> {
  const child = fork(join(import.meta.dirname, "evaluate.ts"), [root, directory, stage], {
    env: { PATH: process.env.PATH, HOME: directory, NODE_COMPILE_CACHE: cache, ...environment },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  return new Promise((resolve, reject) => {
    let said = "";
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`the program has not settled in ${deadlineMs} ms\n${said}`));
    }, deadlineMs);
    child.stderr?.on("data", (chunk) => {
      said += chunk;
    });
    child.once("message", (message: { evaluated: Evaluated } | { error: string }) => {
      if ("error" in message) reject(new Error(message.error));
      else resolve(message.evaluated);
    });
    child.once("exit", (code) => {
      clearTimeout(timer);
      reject(new Error(`the program ended with ${code}\n${said}`));
    });
  });
}
