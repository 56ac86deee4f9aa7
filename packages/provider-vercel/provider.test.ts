import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createMemoryProvider } from "@concierge/core/testing";
import { providerContract } from "@concierge/core/testing/provider-contract";
import { Sandbox } from "@vercel/sandbox";
import { localFetch, startSandboxApi } from "vercel-sandbox-local";
import { describe, expect, it, vi } from "vitest";
import { readRetryAfter } from "./errors.ts";
import { readRunnerState } from "./runner-state.ts";
import { signalLauncher } from "./signal-launcher.ts";
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

const runner = "setInterval(() => {}, 1000);";

const credentials = { token: "local", teamId: "local", projectId: "local" };

/** Vercel's API on loopback, with helpers that use the SDK directly. */
async function openApi(limits = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "concierge-provider-"));
  const { url, close } = await startSandboxApi({ dataDir, limits, tokens: [credentials.token] });
  const session = async (name: string) =>
    (await Sandbox.get({ ...credentials, name, resume: false, fetch: localFetch(url) })).currentSession();
  return {
    url,
    options: { ...credentials, baseUrl: url },
    session,
    /** The number of live runners in a directory. */
    async runners(name: string, runDir: string): Promise<number> {
      const args = ["-c", 'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " < $f; echo; done 2>/dev/null'];
      const command = await (await session(name)).runCommand({ cmd: "sh", args });
      const isRunner = (line: string) => line.startsWith("node ") && line.includes(`${runDir}/runner.mjs`);
      return (await command.stdout()).split("\n").filter(isRunner).length;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

providerContract("through the real SDK", async () => {
  const api = await openApi({ minTimeoutMs: 1000 });
  return {
    provider: createVercelProvider(api.options),
    runner,
    isAlive: async ({ name }, runDir) => (await api.runners(name, runDir)) > 0,
    hasFile: async ({ name }, path) => (await (await api.session(name)).readFileToBuffer({ path })) !== null,
    pass: async () => await delay(1000),
    close: async () => await api[Symbol.asyncDispose](),
  };
});

it("exec reports that the command had started if its sandbox is deleted", async () => {
  await using api = await openApi();
  const provider = createVercelProvider(api.options);
  const sandbox = await provider.create({ name: "deleted", tags: {}, timeoutMs: 600_000 });
  const args = ["-c", "echo > /tmp/started; sleep 1000"];
  const execution = provider.exec(sandbox, { cmd: "sh", args, timeoutMs: 60_000, maxBytes: 100 });
  execution.catch(() => {});
  const session = await api.session(sandbox.name);
  await expect.poll(() => session.readFileToBuffer({ path: "/tmp/started" })).not.toBeNull();
  await provider.remove(sandbox.name);
  await expect(execution).rejects.toMatchObject({ kind: "gone", hasBegun: true });
});

describe("a launched turn", () => {
  const runDir = "/tmp/concierge/task_launched-1";

  async function open() {
    const api = await openApi();
    const provider = createVercelProvider(api.options);
    const sandbox = await provider.create({ name: "launched", tags: {}, timeoutMs: 600_000 });
    await provider.writeFiles(sandbox, [{ path: `${runDir}/runner.mjs`, content: runner }]);
    const launch = () => provider.launch(sandbox, runDir, {});
    return { api, provider, sandbox, launch, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
  }

  it("runs once, even with concurrent launches", async () => {
    await using opened = await open();
    const { api, launch, sandbox } = opened;
    await Promise.all(Array.from({ length: 6 }, launch));
    await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
  });

  it("is swept by its launcher, which reports the result over REST", async () => {
    await using opened = await open();
    const { api, launch, sandbox } = opened;
    const commandId = await launch();
    // A signal before the launcher has set its trap ends it without a result.
    await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
    // On a busy machine the sweep can take longer than one call waits, or than the launcher's own patience.
    const signal = () => signalLauncher(api.options, sandbox.sessionId, commandId);
    await expect.poll(signal, { timeout: 20_000 }).toMatch(/^(clean|alive)$/);
  });

  it.each([
    ["claims that it was barred", `echo barred > ${runDir}/launched`],
    ["claims a later start", `echo 99999999999 > ${runDir}/launched`],
    ["deleted its directory", `rm -r ${runDir}`],
  ])(
    "is swept by its real start time, although the agent %s and killed the launcher",
    async (_what, script) => {
      await using opened = await open();
      const { api, provider, launch, sandbox } = opened;
      const commandId = await launch();
      await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
      const session = await api.session(sandbox.name);
      await session.runCommand({ cmd: "sh", args: ["-c", script] });
      await (await session.getCommand(commandId)).kill("SIGKILL");
      // A process outside the killed group, as an agent could leave it.
      await session.runCommand({ cmd: "sh", args: ["-c", `node ${runDir}/runner.mjs`], detached: true });
      expect(await provider.sweep(sandbox, runDir, { commandId })).toBe("clean");
      expect(await api.runners(sandbox.name, runDir)).toBe(0);
    },
  );
});

describe("the network of a sandbox", () => {
  it("is restricted by the provider, which injects the secret and never returns it", async () => {
    await using api = await openApi();
    // Without `baseUrl`, the provider sets the policy as on Vercel.
    const { fetch } = globalThis;
    vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) =>
      fetch(String(input).replace("https://vercel.com", api.url), init),
    );
    try {
      const provider = createVercelProvider(credentials);
      const sandbox = await provider.create({ name: "guarded", tags: {}, timeoutMs: 600_000 });
      const match = { path: { startsWith: "/v1/" }, header: { name: "x-api-key", value: "placeholder" } };
      const inject = [{ host: "api.example", match, set: { name: "x-api-key", value: "the secret" } }];
      const policy = { allow: ["api.example", "git.example"], inject };
      expect(await provider.guardNetwork(sandbox, policy)).toBe("guarded");

      const { networkPolicy } = (
        await Sandbox.get({ ...credentials, name: "guarded", resume: false })
      ).currentSession();
      expect(networkPolicy).toEqual({
        allow: {
          "api.example": [
            {
              match: {
                path: { startsWith: "/v1/" },
                headers: [{ key: { exact: "x-api-key" }, value: { exact: "placeholder" } }],
              },
              transform: [{ headers: { "x-api-key": expect.any(String) } }],
            },
          ],
          "git.example": [],
        },
      });
      expect(JSON.stringify(networkPolicy)).not.toContain("the secret");
    } finally {
      vi.unstubAllGlobals();
    }
  });
});

describe("a Retry-After header", () => {
  const now = Date.parse("2026-11-01T12:00:00Z");

  it.each([
    ["seconds", "7", 7000],
    ["a date", "Sun, 01 Nov 2026 12:00:21 GMT", 21_000],
    ["more than a minute", "3600", 60_000],
    ["a distant date", "Sun, 01 Nov 2026 13:00:00 GMT", 60_000],
    ["a past date", "Sun, 01 Nov 2026 11:59:59 GMT", undefined],
    ["zero", "0", undefined],
    ["nonsense", "soon", undefined],
    ["no header", null, undefined],
  ])("is parsed and capped: %s", (_what, header, expected) => {
    expect(readRetryAfter(header, now)).toBe(expected);
  });
});

describe("the runner's state file", () => {
  const written = {
    pid: 1,
    agentPid: 2,
    lastOutputAt: "2026-11-01T12:00:00.000Z",
    producedSeq: 3,
    ackedSeq: 2,
    activity: "tool",
  };

  it("contains the last output, whether output is undelivered, and the activity", () => {
    expect(readRunnerState(JSON.stringify(written))).toEqual({
      at: undefined,
      lastOutputAt: Date.parse(written.lastOutputAt),
      undelivered: true,
      activity: "tool",
    });
    const at = "2026-11-01T12:00:05.000Z";
    expect(readRunnerState(JSON.stringify({ ...written, at }))).toMatchObject({ at: Date.parse(at) });
    expect(readRunnerState(JSON.stringify({ ...written, lastOutputAt: null, ackedSeq: 3 }))).toMatchObject({
      lastOutputAt: undefined,
      undelivered: false,
    });
  });

  it.each(["", "{", "[]", '{"activity":"dancing"}'])("is ignored if it is %j", (text) => {
    expect(readRunnerState(text)).toBeUndefined();
  });
});
