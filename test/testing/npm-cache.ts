import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const REGISTRY = "https://registry.npmjs.org";
/** Outlasts the tests: an exact version never changes. */
const CACHE = join(tmpdir(), "concierge-npm-cache");

/** npm's registry on loopback, with a cache on this machine. */
export async function startNpmCache() {
  mkdirSync(CACHE, { recursive: true });
  const server = createServer((request, response) => {
    answer(request.url ?? "/", response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function answer(path: string, response: ServerResponse): Promise<void> {
  const file = join(CACHE, createHash("sha256").update(path).digest("hex"));
  const kept = await readFile(file).catch(() => undefined);
  if (kept !== undefined) return void response.writeHead(200).end(kept);
  const found = await fetch(`${REGISTRY}${path}`);
  const body = Buffer.from(await found.arrayBuffer());
  if (found.ok) {
    const unfinished = `${file}.${process.pid}.${Math.random()}`;
    await writeFile(unfinished, body);
    await rename(unfinished, file);
  }
  response.writeHead(found.status).end(body);
}
