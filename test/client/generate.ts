/** Writes the client's types from the api's OpenAPI document: `npm run generate -w @concierge/client`. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createTestApi } from "../testing/api.ts";

const client = fileURLToPath(new URL("../../packages/client", import.meta.url));
export const schemaFile = `${client}/schema.gen.ts`;

const header = `// Generated from the api's OpenAPI document by \`npm run generate -w @concierge/client\`. Do not edit.
// biome-ignore-all format: generated
// biome-ignore-all lint: generated
`;

/** The types of an OpenAPI document, as they are checked in. */
export async function generateTypes(document: string): Promise<string> {
  // It and the TypeScript 5 that it needs are installed beside the client only.
  const generator = `${client}/node_modules/openapi-typescript/bin/cli.js`;
  const running = promisify(execFile)(process.execPath, [generator], { cwd: client, maxBuffer: 2 ** 24 });
  running.child.stdin?.end(document);
  const { stdout } = await running;
  return header + stdout.slice(stdout.indexOf("\n/**") + 1).replace(/^\/\*\*[\s\S]*?\*\/\n/, "");
}

if (import.meta.main) {
  const { text } = await createTestApi().request("GET", "/openapi.json");
  await writeFile(schemaFile, await generateTypes(text));
}
