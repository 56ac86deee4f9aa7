import { spawnSync } from "node:child_process";
import { mkdtemp, mkdtempDisposable, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "@vercel/sandbox";
import { localFetch, startSandboxApi } from "vercel-sandbox-local";
import { describe, expect, it, vi } from "vitest";
import { hopping } from "../../test/fixtures/processes.ts";
import { providerContract } from "./contract.ts";
import { readRetryAfter } from "./errors.ts";
import { createMemoryProvider } from "./memory.ts";
import { readRunnerState } from "./runner-state.ts";
import { sweepResults, sweepScript } from "./sweep.ts";
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

/** Vercel's API on loopback, and what the SDK itself sees there. */
async function openApi(limits = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "concierge-provider-"));
  const { url, close } = await startSandboxApi({ dataDir, limits });
  const session = async (name: string) =>
    (await Sandbox.get({ ...credentials, name, resume: false, fetch: localFetch(url) })).currentSession();
  return {
    url,
    options: { ...credentials, baseUrl: url },
    session,
    /** How many runners are alive in that directory. */
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

it("a command whose sandbox goes away has begun", async () => {
  await using api = await openApi();
  const provider = createVercelProvider(api.options);
  const sandbox = await provider.create({ name: "leaves", tags: {}, timeoutMs: 600_000 });
  const args = ["-c", "echo > /tmp/begun; sleep 1000"];
  const ran = provider.exec(sandbox, { cmd: "sh", args, timeoutMs: 60_000, maxBytes: 100 });
  ran.catch(() => {});
  const session = await api.session(sandbox.name);
  await expect.poll(() => session.readFileToBuffer({ path: "/tmp/begun" })).not.toBeNull();
  await provider.remove(sandbox.name);
  await expect(ran).rejects.toMatchObject({ kind: "gone", hasBegun: true });
});

describe("a turn that was launched", () => {
  const runDir = "/tmp/concierge/task_launched-1";

  async function open() {
    const api = await openApi();
    const provider = createVercelProvider(api.options);
    const sandbox = await provider.create({ name: "launched", tags: {}, timeoutMs: 600_000 });
    await provider.writeFiles(sandbox, [{ path: `${runDir}/runner.mjs`, content: runner }]);
    const launch = () => provider.launch(sandbox, runDir, {});
    return { api, provider, sandbox, launch, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
  }

  it("runs once, however many launches come at once", async () => {
    await using opened = await open();
    const { api, launch, sandbox } = opened;
    await Promise.all(Array.from({ length: 6 }, launch));
    await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
  });

  it("is swept without the SDK being loaded, where what was launched can be told", async () => {
    await using opened = await open();
    const { api, launch, sandbox } = opened;
    const commandId = await launch();
    // The launcher can be told from here on: a signal that comes before its trap is set ends it without a word.
    await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
    vi.resetModules();
    vi.doMock("./sdk.ts", () => {
      throw new Error("the SDK was loaded");
    });
    try {
      const fresh = (await import("./vercel.ts")).createVercelProvider(api.options);
      // On a busy machine the sweep can take longer than a stop waits for it. Its result can be read then.
      const swept = () => fresh.sweep(sandbox, runDir, { commandId }).catch(() => "not told in time");
      await expect.poll(swept, { timeout: 20_000 }).toBe("clean");
      await expect(fresh.sweep(sandbox, runDir)).rejects.toThrow();
    } finally {
      vi.doUnmock("./sdk.ts");
    }
  });

  it.each([
    ["says that it never was", `echo barred > ${runDir}/launched`],
    ["says that it began later", `echo 99999999999 > ${runDir}/launched`],
    ["has taken away what says so", `rm -r ${runDir}`],
  ])("is swept by when it began, though its agent %s and has killed the launcher", async (_what, script) => {
    await using opened = await open();
    const { api, provider, launch, sandbox } = opened;
    const commandId = await launch();
    await expect.poll(() => api.runners(sandbox.name, runDir)).toBe(1);
    const session = await api.session(sandbox.name);
    await session.runCommand({ cmd: "sh", args: ["-c", script] });
    await (await session.getCommand(commandId)).kill("SIGKILL");
    // Not of the killed group: what the agent would have left.
    await session.runCommand({ cmd: "sh", args: ["-c", `node ${runDir}/runner.mjs`], detached: true });
    expect(await provider.sweep(sandbox, runDir, { commandId })).toBe("clean");
    expect(await api.runners(sandbox.name, runDir)).toBe(0);
  });

  it("is not called dead while it forks and ends, again and again", { timeout: 60_000 }, async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), "concierge-sweep-"));
    const script = `
      # Read before it begins: on a busy machine one that waits for its turn may have begun a while ago.
      read -r up _ < /proc/uptime
      ${hopping("mark")}
      sleep 0.1
      sh -c "$0" sh ${directory.path} \${up%.*}\${up#*.}
      echo $?
      for look in $(seq 300); do
        for path in /proc/[0-9]*; do
          read -r stat < $path/stat; set -- \${stat##*) }
          # What has no memory any more (field 23) runs nothing: it is being taken down.
          case $stat in *"(perl)"*) [ "\${21}" != 0 ] && echo there && exit ;; esac
        done
      done 2>/dev/null`;
    for (let time = 0; time < 12; time++) {
      const args = ["-Urpfm", "--mount-proc", "--kill-child", "bash", "-c", script, sweepScript];
      const { stdout } = spawnSync("unshare", args, { encoding: "utf8" });
      expect(["40\n", "43\n", "43\nthere\n"]).toContain(stdout);
    }
  });

  it("is not called dead where /proc is not to be seen", async () => {
    const args = ["-Urpfm", "--mount-proc", "sh", "-c", 'mount -t tmpfs none /proc; sh -c "$0" sh /tmp 1'];
    const { status } = spawnSync("unshare", [...args, sweepScript]);
    expect(sweepResults.get(status ?? 0)).toBe("alive");
  });
});

describe("the network of a sandbox", () => {
  it("is guarded by the provider, which puts the secret into requests and never tells it again", async () => {
    await using api = await openApi();
    // As against Vercel itself, but for the address: the local API is told all, and keeps to none of it.
    const { fetch } = globalThis;
    vi.stubGlobal("fetch", (input: string | URL, init?: RequestInit) =>
      fetch(String(input).replace("https://vercel.com", api.url), init),
    );
    try {
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
    }
  });
});

describe("how long the provider asks to be left alone", () => {
  const now = Date.parse("2026-11-01T12:00:00Z");

  it.each([
    ["seconds", "7", 7000],
    ["a date", "Sun, 01 Nov 2026 12:00:21 GMT", 21_000],
    ["more than a minute", "3600", 60_000],
    ["a date far away", "Sun, 01 Nov 2026 13:00:00 GMT", 60_000],
    ["a date that is over", "Sun, 01 Nov 2026 11:59:59 GMT", undefined],
    ["no time at all", "0", undefined],
    ["nonsense", "soon", undefined],
    ["nothing", null, undefined],
  ])("is read from its header: %s", (_what, header, expected) => {
    expect(readRetryAfter(header, now)).toBe(expected);
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

  it.each(["", "{", "[]", '{"activity":"dancing"}'])("says nothing when it is %j", (text) => {
    expect(readRunnerState(text)).toBeUndefined();
  });
});
