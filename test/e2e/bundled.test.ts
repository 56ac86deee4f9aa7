import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;

beforeAll(async () => {
  concierge = await startConcierge();
});
afterAll(() => concierge[Symbol.asyncDispose]());

describe("the functions, from their bundles", () => {
  test("resolve modules only from what they are shipped with", () => {
    const functions = concierge.processes().filter(({ name }) => name.includes("#"));
    expect(functions.map(({ name }) => name).sort()).toEqual([
      "Api#1",
      "ApiRunner#1",
      "Reaper#1",
      "Timer#1",
      "Webhook#1",
      "Worker#1",
    ]);
    for (const { pid } of functions) {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
      const root = environment.find((line) => line.startsWith("LAMBDA_TASK_ROOT="))?.split("=")[1] ?? "";
      expect(environment).toContain("_HANDLER=bundle.handler");
      expect(above(root).filter((directory) => existsSync(join(directory, "node_modules")))).toEqual([]);
    }
  });

  test("serve the API docs and the OpenAPI document", async () => {
    const page = await (await fetch(new URL("/docs", concierge.url))).text();
    const wanted = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(wanted).toEqual(["/docs/explorer.js"]);
    for (const path of wanted) {
      const file = await fetch(new URL(path, concierge.url));
      expect(file.status).toBe(200);
      expect((await file.text()).length).toBeGreaterThan(50);
    }
    const document = (await (await fetch(new URL("/openapi.json", concierge.url))).json()) as {
      info: { version: string };
    };
    expect(document.info.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

function above(directory: string): string[] {
  const parent = dirname(directory);
  return parent === directory ? [directory] : [directory, ...above(parent)];
}
