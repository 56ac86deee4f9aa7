import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const bin = fileURLToPath(new URL("../bin/concierge-snapshot.mjs", import.meta.url));

/** A Concierge whose build succeeds or fails at the first poll. */
let outcome: { state: string; snapshotId: string | null; detail: string | null };
let requests: string[];
let url: string;
const server = createServer(({ method, headers }, response) => {
  requests.push(`${method} ${headers.authorization}`);
  const isAllowed = headers.authorization === "Bearer the-admin-key";
  const built = requests.some((line) => line.startsWith("POST"));
  const body = !isAllowed
    ? { detail: "This is for admins." }
    : built
      ? outcome
      : { state: "none", snapshotId: null, detail: null };
  response.writeHead(isAllowed ? 200 : 403, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
});

beforeEach(async () => {
  requests = [];
  outcome = { state: "ready", snapshotId: "snap_1", detail: null };
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function run(args: string[], env: Record<string, string> = { CONCIERGE_API_KEY: "the-admin-key" }) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const { CONCIERGE_API_KEY: _, CONCIERGE_URL: __, ...rest } = process.env;
    execFile(process.execPath, [bin, ...args], { env: { ...rest, ...env } }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

describe("npm run snapshot", () => {
  test("waits for the snapshot and prints its id", async () => {
    const { code, stdout } = await run(["--url", url]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "The base snapshot snap_1 is ready.\n" });
    expect(requests.slice(0, 2)).toEqual(["GET Bearer the-admin-key", "POST Bearer the-admin-key"]);
  });

  test("uses the key of `npm run dev` and prints JSON on request", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "concierge-snapshot-"));
    await writeFile(join(dataDir, "secrets.json"), JSON.stringify({ AdminApiKey: "the-admin-key" }));
    const { code, stdout } = await run(["--url", url, "--data-dir", dataDir, "--json"], {});
    await rm(dataDir, { recursive: true });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(outcome);
  });

  test("prints why the build failed", async () => {
    outcome = { state: "failed", snapshotId: null, detail: "npm is not there" };
    const { code, stderr } = await run(["--url", url]);
    expect(code).toBe(1);
    expect(stderr).toContain("npm is not there");
  });

  test.each([
    [["--nonsense"], 2, "--nonsense"],
    [["--url", "http://127.0.0.1:1"], 1, "no answer from"],
    [["--help"], 0, ""],
  ])("with %j exits with %d", async (args, expected, message) => {
    const { code, stderr } = await run(args);
    expect(code).toBe(expected);
    expect(stderr).toContain(message);
  });

  test("reports a missing or unauthorized key", async () => {
    expect((await run(["--url", url, "--data-dir", "/nonexistent"], {})).stderr).toContain(
      "CONCIERGE_API_KEY",
    );
    expect((await run(["--url", url], { CONCIERGE_API_KEY: "another" })).stderr).toContain("admins");
  });
});
