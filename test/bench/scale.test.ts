import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { scaleFile, scaleTables, withTables } from "./scale.ts";
import { countRequests } from "./verbs.ts";

it("docs/scale.md has the measured counts (update: npm run scale -- --update)", async () => {
  const document = await readFile(scaleFile, "utf8");
  expect(document).toBe(withTables(document, scaleTables(await countRequests())));
});
