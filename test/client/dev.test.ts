import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "@concierge/bundler";
import { describe, expect, it } from "vitest";
import { alive } from "../testing/processes.ts";

/** npm answers a signal with an exit code of its own, so the code of the command is checked without npm. */
const bin = join(repositoryRoot, "node_modules/.bin/concierge");
const ways = {
  "npx concierge": { command: "npx", args: ["concierge"], codes: [0, null, 130, 143] },
  concierge: { command: process.execPath, args: [bin], codes: [0] },
};

describe.each(Object.entries(ways))("%s dev --json", (_, { command, args, codes }) => {
  it.each(["SIGINT", "SIGTERM"] as const)(
    "prints one line, takes dev's options, and ends with %s",
    async (signal) => {
      const dataDir = await mkdtemp(join(tmpdir(), "concierge-npx-dev-"));
      const options = [
        "--port",
        "0",
        "--data-dir",
        dataDir,
        "--reap-every",
        "3600000",
        "--api-processes",
        "2",
      ];
      const child = spawn(command, [...args, "dev", "--json", ...options], {
        cwd: repositoryRoot,
        stdio: ["ignore", "pipe", "pipe"],
        // Its own group, as in a terminal, which sends a signal to the whole group.
        detached: true,
      });
      let [stdout, stderr] = ["", ""];
      child.stdout.on("data", (text) => {
        stdout += text;
      });
      child.stderr.on("data", (text) => {
        stderr += text;
      });
      const closed = once(child, "close");
      try {
        await expect.poll(() => stdout, { timeout: 60_000, message: stderr }).toContain("\n");
        const ready = JSON.parse(stdout) as { ready: boolean; url: string; apiKey: string; userId: string };
        expect(ready).toEqual({
          ready: true,
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
          apiKey: expect.stringMatching(/^.{16,}$/),
          userId: "dev",
        });
        const headers = { authorization: `Bearer ${ready.apiKey}` };
        expect((await fetch(`${ready.url}/v1/me`, { headers })).status).toBe(200);
        expect((await readdir(dataDir)).length).toBeGreaterThan(0);
      } finally {
        process.kill(-(child.pid ?? 0), signal);
      }
      const [code] = await closed;
      expect(codes).toContain(code);
      expect(stdout.trim().split("\n")).toHaveLength(1);
      await expect.poll(() => alive(dataDir), { timeout: 15_000 }).toEqual([]);
      await rm(dataDir, { recursive: true, force: true });
    },
    120_000,
  );
});

it("npx concierge dev refuses a wrong option with exit code 2 and nothing on stdout", async () => {
  const child = spawn("npx", ["concierge", "dev", "--json", "--port", "x"], { cwd: repositoryRoot });
  let stdout = "";
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  const [code] = await once(child, "close");
  expect([code, stdout]).toEqual([2, ""]);
}, 60_000);
