import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { createTestApi } from "../testing/api.ts";
import { generateTypes, schemaFile } from "./generate.ts";

it("the client's types are those of the api's document", async () => {
  const { text } = await createTestApi().request("GET", "/openapi.json");
  const isCurrent = (await readFile(schemaFile, "utf8")) === (await generateTypes(text));
  expect(isCurrent, "run: npm run generate -w @concierge/client").toBe(true);
});
