import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { APIError, Sandbox, StreamError } from "@vercel/sandbox";
import { localFetch, startSandboxApi } from "vercel-sandbox-local";
import { describe, expect, it, vi } from "vitest";
import { providerContract } from "./contract.ts";
import { kindOf } from "./errors.ts";
import { createMemoryProvider } from "./memory.ts";
import { readRunnerState } from "./runner-state.ts";
import { createVercelProvider } from "./vercel.ts";

providerContract("in memory", async () => {
  let now = 1_800_000_000_000;
  const { provider, world } = createMemoryProvider({ clock: { now: () => now, sleep: async () => {} } });
  return {
    provider,
    runner: "",
    isAlive: async (sandbox, runDir) =>
      world.processes.some(
        (process) => process.sandbox === sandbox.name && process.runDir === runDir && process.alive,
      ),
    hasFile: async (sandbox, path) => world.files(sandbox.name)?.has(path) ?? false,
    pass: async () => {
      now += 1000;
    },
    close: async () => {},
  };
});

/** Does what the real runner does first, then stays. */
const runner = `
import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
const dir = dirname(process.argv[1]);
const stat = readFileSync("/proc/self/stat", "latin1");
const startTicks = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
try {
  writeFileSync(dir + "/launched", JSON.stringify({ pid: process.pid, startTicks }) + "\\n", { flag: "wx" });
  setInterval(() => {}, 1000);
} catch {}
`;

providerContract("through the real SDK", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "concierge-provider-"));
  const api = await startSandboxApi({ dataDir, limits: { minTimeoutMs: 1000 } });
  const credentials = { token: "local", teamId: "local", projectId: "local" };
  return {
    provider: createVercelProvider({ ...credentials, baseUrl: api.url }),
    runner,
    isAlive: async ({ name }, runDir) => {
      const sandbox = await Sandbox.get({ ...credentials, name, resume: false, fetch: localFetch(api.url) });
      // A runner that has not yet made its file can still be barred: it does not count as launched.
      const list = 'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " < $f; echo; done 2>/dev/null';
      const args = ["-c", `[ -s ${runDir}/launched ] && ${list}`];
      const command = await sandbox.currentSession().runCommand({ cmd: "sh", args });
      const isRunner = (line: string) => line.startsWith("node ") && line.includes(`${runDir}/runner.mjs`);
      return (await command.stdout()).split("\n").some(isRunner);
    },
    hasFile: async ({ name }, path) => {
      const sandbox = await Sandbox.get({ ...credentials, name, resume: false, fetch: localFetch(api.url) });
      return (await sandbox.currentSession().readFileToBuffer({ path })) !== null;
    },
    pass: async () => await delay(1000),
    close: async () => {
      await api.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
});

describe("a stop", () => {
  it("loads nothing of the SDK where what was launched can be told", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "concierge-provider-"));
    const api = await startSandboxApi({ dataDir });
    try {
      const options = { token: "local", teamId: "local", projectId: "local", baseUrl: api.url };
      const launching = createVercelProvider(options);
      const sandbox = await launching.create({ name: "told", tags: {}, timeoutMs: 600_000 });
      const runDir = "/tmp/concierge/task_told-1";
      await launching.writeFiles(sandbox, [{ path: `${runDir}/runner.mjs`, content: runner }]);
      const commandId = await launching.launch(sandbox, runDir, {});

      vi.resetModules();
      vi.doMock("./sdk.ts", () => {
        throw new Error("the SDK was loaded");
      });
      const fresh = (await import("./vercel.ts")).createVercelProvider(options);
      expect(await fresh.sweep(sandbox, runDir, { commandId })).toBe("clean");
      await expect(fresh.sweep(sandbox, runDir)).rejects.toThrow();
    } finally {
      vi.doUnmock("./sdk.ts");
      await api.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe("the network of a sandbox", () => {
  it("is guarded by the provider, which puts the secret into requests and never tells it again", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "concierge-provider-"));
    const api = await startSandboxApi({ dataDir });
    // As against Vercel itself, but for the address: the local API is told all, and keeps to none of it.
    const { fetch } = globalThis;
    vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) =>
      fetch(String(input).replace("https://vercel.com", api.url), init),
    );
    try {
      const credentials = { token: "local", teamId: "local", projectId: "local" };
      const provider = createVercelProvider(credentials);
      const sandbox = await provider.create({ name: "guarded", tags: {}, timeoutMs: 600_000 });
      const inject = { "api.example": { "x-api-key": "the secret" } };
      const policy = { allow: ["api.example", "git.example"], inject };
      expect(await provider.guardNetwork(sandbox, policy)).toBe("guarded");

      const { networkPolicy } = (
        await Sandbox.get({ ...credentials, name: "guarded", resume: false })
      ).currentSession();
      expect(networkPolicy).toEqual({
        allow: {
          "api.example": [{ transform: [{ headers: { "x-api-key": expect.any(String) } }] }],
          "git.example": [],
        },
      });
      expect(JSON.stringify(networkPolicy)).not.toContain("the secret");
    } finally {
      vi.unstubAllGlobals();
      await api.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe("a failure of the SDK's", () => {
  const answered = (status: number) => new APIError(new Response(null, { status }));

  it.each([
    ["404", answered(404), "gone"],
    ["410", answered(410), "gone"],
    ["422", answered(422), "stopped"],
    ["429", answered(429), "throttled"],
    ["500", answered(500), "transient"],
    ["503", answered(503), "transient"],
    ["400", answered(400), "refused"],
    ["401", answered(401), "refused"],
    [
      "a stream that broke off because the sandbox stopped",
      new StreamError("sandbox_stopped", "", ""),
      "stopped",
    ],
    ["a connection that broke", new TypeError("fetch failed"), "transient"],
    ["a time-out", new DOMException("", "TimeoutError"), "transient"],
  ] as const)("is classified by its type and status: %s", (_what, error, kind) => {
    expect(kindOf(error)).toBe(kind);
  });
});

describe("what a runner wrote of itself", () => {
  const written = {
    pid: 1,
    agentPid: 2,
    lastOutputAt: "2026-11-01T12:00:00.000Z",
    producedSeq: 3,
    ackedSeq: 2,
    activity: "tool",
  };

  it("tells when it last spoke, whether all is delivered, and what it waits for", () => {
    expect(readRunnerState(JSON.stringify(written))).toEqual({
      lastOutputAt: Date.parse(written.lastOutputAt),
      undelivered: true,
      activity: "tool",
    });
    expect(readRunnerState(JSON.stringify({ ...written, lastOutputAt: null, ackedSeq: 3 }))).toMatchObject({
      lastOutputAt: undefined,
      undelivered: false,
    });
  });

  it.each(["", "{", "[]", '{"activity":"dancing"}'])("says nothing when it is %j", (text) => {
    expect(readRunnerState(text)).toBeUndefined();
  });
});
