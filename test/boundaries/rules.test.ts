import { describe, expect, it } from "vitest";
import { entriesOf, findViolations, importsOf } from "./rules.ts";

const entries = [
  ...entriesOf({
    name: "@concierge/core",
    exports: { ".": "./index.ts", "./task/start": "./task/start.ts" },
  }),
  ...["@concierge/store", "@concierge/provider-vercel", "vercel-sandbox-local"].flatMap((name) =>
    entriesOf({ name }),
  ),
];
const check = (path: string, text: string) => findViolations([{ path, text }], entries);

describe("the package boundaries", () => {
  it.each([
    ["core reads a file", "packages/core/task/x.ts", `import { readFile } from "node:fs/promises";`],
    ["core knows an SDK", "packages/core/x.ts", `import { SQSClient } from "@aws-sdk/client-sqs";`],
    ["core knows an adapter", "packages/core/x.ts", `import { createDynamoStore } from "@concierge/store";`],
    [
      "an adapter knows another",
      "packages/store/x.ts",
      `import type { A } from "@concierge/provider-vercel";`,
    ],
    [
      "a handler reaches past an index",
      "functions/x.ts",
      `import { when } from "@concierge/core/task/guards.ts";`,
    ],
    [
      "a handler reaches in by path",
      "functions/x.ts",
      `import { when } from "../packages/core/task/guards.ts";`,
    ],
    ["a test reaches in by path", "test/e2e/x.test.ts", `import { a } from "../../packages/core/ids.ts";`],
    ["a lazy import reaches in", "functions/x.ts", `const a = await import("@concierge/store/dynamo.ts");`],
    [
      "an adapter calls another's verb",
      "packages/store/x.ts",
      `import { a } from "@concierge/provider-vercel/sdk";`,
    ],
    [
      "core calls itself by name",
      "packages/core/x.ts",
      `import { start } from "@concierge/core/task/start";`,
    ],
    ["an export reaches in", "functions/x.ts", `export * from "@concierge/store/dynamo.ts";`],
    ["an import over several lines", "packages/core/x.ts", `import {\n  a,\n  type B,\n} from "node:http";`],
    ["a bare import", "packages/core/x.ts", `import "node:net";`],
  ])("refuse it when %s", (_what, path, text) => {
    expect(check(path, text)).toHaveLength(1);
  });

  it.each([
    ["core hashes", "packages/core/x.ts", `import { createHash } from "node:crypto";`],
    ["core parses", "packages/core/x.ts", `import * as z from "zod/mini";`],
    ["an adapter knows core", "packages/store/x.ts", `import type { Store } from "@concierge/core";`],
    ["a handler calls a verb", "functions/x.ts", `import { start } from "@concierge/core/task/start";`],
    ["a handler composes", "functions/x.ts", `import { createDynamoStore } from "@concierge/store";`],
    [
      "the local stack reads the topology",
      "packages/dev/x.ts",
      `import { topology } from "../../infra/topology.ts";`,
    ],
    ["a test uses fixtures", "packages/store/x.test.ts", `import { a } from "../../test/testing/a.ts";`],
    ["a package uses itself", "packages/core/task/x.ts", `import { a } from "../ids.ts";`],
  ])("allow it when %s", (_what, path, text) => {
    expect(check(path, text)).toEqual([]);
  });

  it("see every way to import", () => {
    const text = `import a from "a";\nimport * as b from "b";\nexport { c } from "c";\nimport type { D } from "d";\nimport("e");\nimport "f";`;
    expect(importsOf(text)).toEqual(["a", "b", "c", "d", "e", "f"]);
  });
});
