/** The client as an application bundles it. */
import { createContext, runInContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, it } from "vitest";
import { json } from "./testing/fake-server.ts";

const sizeMaxBytes = 10_000;

const bundle = async (format: "esm" | "iife") => {
  const { outputFiles, metafile } = await build({
    entryPoints: [new URL("index.ts", import.meta.url).pathname],
    bundle: true,
    minify: true,
    metafile: true,
    write: false,
    format,
    globalName: "concierge",
    platform: "neutral",
    target: "es2022",
  });
  return { text: outputFiles[0]?.text ?? "", inputs: Object.keys(metafile.inputs) };
};

it("is under 10 KB gzipped and imports nothing", async () => {
  const { text, inputs } = await bundle("esm");
  const sizeBytes = gzipSync(text, { level: 9 }).length;
  console.log(`@concierge/client: ${sizeBytes} bytes gzipped`);
  expect(sizeBytes).toBeLessThan(sizeMaxBytes);
  expect(inputs.filter((path) => path.includes("node_modules"))).toEqual([]);
  expect(text).not.toMatch(/\bimport\b|\brequire\b|node:|\bprocess\b|\bBuffer\b/);
});

it("runs where only web APIs exist", async () => {
  const { text } = await bundle("iife");
  const context = createContext({
    URL,
    URLSearchParams,
    Headers,
    Response,
    TextDecoder,
    ReadableStream,
    AbortController,
    AbortSignal,
    crypto,
    setTimeout,
    clearTimeout,
    fetch: async () => json({ id: "task_1" }, 202),
  });
  const start = `${text}; concierge.createClient({ url: "http://x", apiKey: "k" }).start({ prompt: "x" })`;
  expect(await runInContext(start, context)).toEqual({ id: "task_1" });
});
