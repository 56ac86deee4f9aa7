import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import {
  bundleAside,
  filesWith,
  findGrown,
  formatSizes,
  initFiles,
  itemErrors,
  ROOT,
  recordedSizes,
  sizesOf,
} from "@concierge/local";
import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { topology } from "../../infra/topology.ts";

const sdk = "node_modules/@vercel/sandbox/";
let bundles: Awaited<ReturnType<typeof bundleAside>>;

beforeAll(async () => {
  bundles = await bundleAside(topology);
});
afterAll(() => bundles[Symbol.asyncDispose]());

describe("the bundles", () => {
  test("are no larger than was recorded, give or take", async () => {
    const sizes = sizesOf(bundles.metafiles);
    console.log(formatSizes(sizes));
    expect(findGrown(sizes, await recordedSizes())).toEqual([]);
  });

  test("that have grown by more than a twentieth, or are new, are told", () => {
    const size = { initBytes: 1000, totalBytes: 2000, gzipBytes: 500 };
    expect(findGrown({ Api: { ...size, initBytes: 1050 } }, { Api: size })).toEqual([]);
    expect(findGrown({ Api: { ...size, initBytes: 1051 } }, { Api: size })).toEqual([
      "Api: initBytes is 1051, 1000 was recorded",
    ]);
    expect(findGrown({ New: size }, { Api: size })).toHaveLength(2);
  });

  test.each(Object.keys(topology.functions))("%s has the provider's SDK, but not in its init", (name) => {
    const metafile = bundles.metafiles[name];
    if (!metafile) throw new Error(`no bundle of ${name}`);
    const { outputs } = metafile;
    const withSdk = Object.keys(outputs).filter((file) =>
      Object.keys(outputs[file]?.inputs ?? {}).some((input) => input.includes(sdk)),
    );
    expect(withSdk).not.toEqual([]);
    const init = initFiles(metafile);
    expect(init.filter((file) => withSdk.includes(file))).toEqual([]);
  });

  test.each([
    ["changes one", "task-verbs", ["packages/core/task/start.ts", "packages/core/pool/slots.ts"]],
    ["reads events", "task-events", ["packages/core/event/read.ts", "functions/api/event-stream.ts"]],
  ])("of the api has nothing that %s where a task is read", (_what, loaded, apart) => {
    const metafile = bundles.metafiles.Api;
    if (!metafile) throw new Error("no bundle of Api");
    const toRead = filesWith(metafile, "functions/api/routes/tasks.ts");
    expect(modulesIn(metafile, filesWith(metafile, `functions/api/${loaded}.ts`))).toEqual(
      expect.arrayContaining(apart),
    );
    const atOnce = modulesIn(metafile, [...initFiles(metafile), ...toRead]);
    expect(atOnce.filter((name) => apart.includes(name))).toEqual([]);
    expect(modulesIn(metafile, toRead)).toContain("packages/core/task/view.ts");
  });

  test("know each error that a command in them may be answered with, and no other", () => {
    const modules = Object.values(bundles.metafiles).flatMap((metafile) =>
      modulesIn(metafile, Object.keys(metafile.outputs)),
    );
    const commands = modules.filter((name) => /client-dynamodb\/dist-es\/commands\/\w+\.js$/.test(name));
    expect(commands).toContain("node_modules/@aws-sdk/client-dynamodb/dist-es/commands/UpdateItemCommand.js");
    const thrown = commands.flatMap((name) => {
      const types = name.replace("/dist-es/", "/dist-types/").replace(/\.js$/, ".d.ts");
      const told = readFileSync(join(ROOT, types), "utf8").matchAll(/@throws \{@link (\w+)\}/g);
      return [...told].flatMap(([, error]) => error ?? []);
    });
    const base = "DynamoDBServiceException";
    expect([...new Set(thrown)].filter((error) => error !== base).sort()).toEqual([...itemErrors].sort());
  });

  test("of the api, once it is loaded, has loaded its init and nothing else", async () => {
    const metafile = bundles.metafiles.Api;
    if (!metafile) throw new Error("no bundle of Api");
    const loaded = await filesLoadedBy(join(bundles.directory, "Api/bundle.mjs"));
    expect(loaded.sort()).toEqual(
      initFiles(metafile)
        .map((file) => resolve(ROOT, file))
        .sort(),
    );
  });
});

function modulesIn({ outputs }: Metafile, files: string[]): string[] {
  return files.flatMap((file) => Object.keys(outputs[file]?.inputs ?? {}));
}

/** In a process of its own, with what a function finds in its environment. */
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
    SWAGGER_UI_CSS_FILE: "swagger-ui.css",
    SWAGGER_UI_JS_FILE: "swagger-ui-bundle.js",
    ...Object.fromEntries(
      Object.entries(resources).map(([name, resource]) => [`SST_RESOURCE_${name}`, JSON.stringify(resource)]),
    ),
  };
}
