import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { EdgeRuntime } from "edge-runtime";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCuttingProxy } from "../testing/cutting-proxy.ts";
import { startDroppingProxy } from "../testing/dropping-proxy.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { runSuite, type SuiteOptions, type SuiteResult } from "./everywhere-suite.ts";

const browser = "/usr/bin/chromium";
const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let concierge: Concierge;
let script: string;
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
  const { outputFiles } = await build({
    entryPoints: [new URL("everywhere-suite.ts", import.meta.url).pathname],
    bundle: true,
    write: false,
    format: "iife",
    globalName: "suite",
    platform: "neutral",
    target: "es2022",
  });
  script = outputFiles[0]?.text ?? "";
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

const runtimes: Record<string, (options: SuiteOptions) => Promise<SuiteResult>> = {
  Node: runSuite,
  Chromium: inChromium,
  "an edge runtime": inEdgeRuntime,
};
const hasBrowser = existsSync(browser);
if (!hasBrowser) {
  const line = "CHROMIUM IS MISSING: the client is not tested in a browser";
  if (process.env.CI) throw new Error(line);
  console.error(line);
}

describe("the client", () => {
  it.each(Object.keys(runtimes).filter((name) => hasBrowser || name !== "Chromium"))(
    "in %s resumes events over cut connections, starts once over lost answers, and stops",
    async (name) => {
      await using cutting = await startCuttingProxy(concierge.url);
      cutting.allow(() => 800 + Math.floor(Math.random() * 1_000));
      await using dropping = await startDroppingProxy(concierge.url, 2);
      const run = runtimes[name];
      if (!run) throw new Error(name);
      const result = await run({
        url: concierge.url,
        cutUrl: cutting.url,
        dropUrl: dropping.url,
        apiKey: concierge.apiKey,
        sessionKey: name.replaceAll(" ", "-"),
      });
      const text = Array.from({ length: 30 }, (_, i) => `line ${i + 1}\n`).join("");
      expect(result).toMatchObject({
        text,
        output: text,
        isOrdered: true,
        lastStatus: "succeeded",
        startedIds: [result.id],
        errorCode: "not_found",
        stopped: "stopped",
      });
      expect(dropping.drops()).toBe(2);
      expect(cutting.cuts()).toBeGreaterThan(2);
    },
    60_000,
  );

  it.skipIf(!hasBrowser)(
    "is refused by the browser on a page of another origin that is not allowed",
    async () => {
      await using page = await openPage("evil.test");
      const request = { url: concierge.url, apiKey: concierge.apiKey };
      const code = await page.evaluate(
        async ({ url, apiKey }) =>
          await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${apiKey}` } }).then(
            ({ status }) => status,
            (error: Error) => error.name,
          ),
        request,
      );
      expect(code).toBe("TypeError");
    },
  );
});

/** A page on its own origin, so every call needs the api's permission. */
async function openPage(host: string) {
  const server = createServer((_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>test</title>"),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const started = await chromium.launch({
    executablePath: browser,
    args: [...flags, `--host-resolver-rules=MAP ${host} 127.0.0.1`],
  });
  const page = await started.newPage();
  await page.goto(`http://${host}:${port}/`);
  return Object.assign(page, {
    async [Symbol.asyncDispose](): Promise<void> {
      await started.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}

async function inChromium(options: SuiteOptions): Promise<SuiteResult> {
  await using page = await openPage("localhost");
  await page.addScriptTag({ content: script });
  return (await page.evaluate(`suite.runSuite(${JSON.stringify(options)})`)) as SuiteResult;
}

async function inEdgeRuntime(options: SuiteOptions): Promise<SuiteResult> {
  const runtime = new EdgeRuntime();
  runtime.evaluate(`${script}; globalThis.suite = suite;`);
  return (await runtime.evaluate(`suite.runSuite(${JSON.stringify(options)})`)) as SuiteResult;
}
