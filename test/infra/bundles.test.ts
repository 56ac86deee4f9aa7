import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import {
  bundleToTempDir,
  filesWith,
  findGrown,
  formatSizes,
  initFiles,
  recordedSizes,
  repositoryRoot,
  sizesOf,
} from "@concierge/bundler";
import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { topology } from "../../infra/topology.ts";

const sdk = "node_modules/@vercel/sandbox/";
let bundles: Awaited<ReturnType<typeof bundleToTempDir>>;

beforeAll(async () => {
  bundles = await bundleToTempDir(topology);
});
afterAll(() => bundles[Symbol.asyncDispose]());

describe("the bundles", () => {
  test("are no larger than recorded, within the tolerance", async () => {
    const sizes = sizesOf(bundles.metafiles);
    console.log(formatSizes(sizes));
    expect(findGrown(sizes, await recordedSizes())).toEqual([]);
  });

  test("that grew by more than 5 % or are new are reported", () => {
    const size = { initBytes: 1000, totalBytes: 2000, gzipBytes: 500 };
    expect(findGrown({ Api: { ...size, initBytes: 1050 } }, { Api: size })).toEqual([]);
    expect(findGrown({ Api: { ...size, initBytes: 1051 } }, { Api: size })).toEqual([
      "Api: initBytes is 1051, 1000 was recorded",
    ]);
    expect(findGrown({ New: size }, { Api: size })).toHaveLength(2);
  });

  test.each(Object.keys(topology.functions))(
    "%s contains the provider's SDK, but not in its init",
    (name) => {
      const metafile = bundles.metafiles[name];
      if (!metafile) throw new Error(`no bundle of ${name}`);
      const { outputs } = metafile;
      const withSdk = Object.keys(outputs).filter((file) =>
        Object.keys(outputs[file]?.inputs ?? {}).some((input) => input.includes(sdk)),
      );
      expect(withSdk).not.toEqual([]);
      const init = initFiles(metafile);
      expect(init.filter((file) => withSdk.includes(file))).toEqual([]);
    },
  );

  test.each([
    ["changes one", "packages/core/task/start.ts", "packages/core/capacity/slots.ts"],
    ["reads events", "packages/core/events/read.ts", "packages/core/events/cursor.ts"],
  ])("of the api loads nothing that %s to read a task", (_what, entry, part) => {
    const metafile = bundles.metafiles.Api;
    if (!metafile) throw new Error("no bundle of Api");
    const toRead = filesWith(metafile, "functions/api/routes/tasks.ts");
    const apart = [entry, part];
    expect(modulesIn(metafile, filesWith(metafile, entry))).toEqual(expect.arrayContaining(apart));
    const atOnce = modulesIn(metafile, [...initFiles(metafile), ...toRead]);
    expect(atOnce.filter((name) => apart.includes(name))).toEqual([]);
    expect(modulesIn(metafile, toRead)).toContain("packages/core/task/view.ts");
  });

  test.each([
    "node_modules/@modelcontextprotocol/sdk/",
    "node_modules/@opentelemetry/",
    "functions/api/origins.ts",
  ])("of the api loads %s only when a request needs it", (part) => {
    const metafile = bundles.metafiles.Api;
    if (!metafile) throw new Error("no bundle of Api");
    const isPart = (name: string) => name.includes(part);
    expect(modulesIn(metafile, Object.keys(metafile.outputs)).some(isPart)).toBe(true);
    const toRead = filesWith(metafile, "functions/api/routes/tasks.ts");
    expect(modulesIn(metafile, [...initFiles(metafile), ...toRead]).filter(isPart)).toEqual([]);
  });

  test("of the api loads only its init at start", async () => {
    const metafile = bundles.metafiles.Api;
    if (!metafile) throw new Error("no bundle of Api");
    const loaded = await filesLoadedBy(join(bundles.directory, "Api/bundle.mjs"));
    expect(loaded.sort()).toEqual(
      initFiles(metafile)
        .map((file) => resolve(repositoryRoot, file))
        .sort(),
    );
  });
});

function modulesIn({ outputs }: Metafile, files: string[]): string[] {
  return files.flatMap((file) => Object.keys(outputs[file]?.inputs ?? {}));
}

/** In a separate process with a function's environment. */
async function filesLoadedBy(module: string): Promise<string[]> {
  const script = `
    import { registerHooks } from "node:module";
    import { fileURLToPath } from "node:url";
    const loaded = [];
    registerHooks({
      load(url, context, next) {
        if (url.startsWith("file:")) loaded.push(fileURLToPath(url));
        return next(url, context);
      },
    });
    globalThis.awslambda = { streamifyResponse: (handler) => handler };
    await import(process.argv[1]);
    console.log(JSON.stringify(loaded));`;
  const args = ["--input-type=module", "--eval", script, module];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: environment() });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
}

function environment(): Record<string, string> {
  const resources = {
    App: { name: "concierge", stage: "test" },
    Table: { name: "table" },
    WorkQueue: { url: "http://127.0.0.1:1/work" },
    TimerQueue: { url: "http://127.0.0.1:1/timers" },
    AdminApiKey: { value: "0123456789abcdef" },
    SealingKey: { value: Buffer.alloc(32).toString("base64") },
  };
  return {
    AWS_REGION: "us-east-1",
    API_EXPLORER_FILE: "openapi-explorer.min.js",
    ...Object.fromEntries(
      Object.entries(resources).map(([name, resource]) => [`SST_RESOURCE_${name}`, JSON.stringify(resource)]),
    ),
  };
}
