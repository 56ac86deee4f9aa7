import type { LiveSandbox, Provider } from "@concierge/core";
import { describe, expect, it, vi } from "vitest";
import { readTable } from "./testing/table.ts";
import {
  aLaunchToSweep,
  always,
  aName,
  aRunDir,
  aSandbox,
  aStopped,
  command,
  countRequests,
  helper,
  letterOf,
  open,
  serveVercel,
  setLatency,
  stop,
  tags,
  timeoutMs,
} from "./testing/vercel.ts";

serveVercel();

const outage = { type: "status", status: 503 };

/**
 * The result of an operation in a provider session that has really ended. The provider has used the session before, so it
 * does not look it up first. `unconfirmed`: the session has ended, but the lookup fails.
 *
 *   G  gone      S  stopped      T  transient
 */
const ended = readTable(`
             deleted  stopped  resumed  unconfirmed
  snapshot   G        S        S        T
  exec       G        S        S        T
  write      G        S        S        T
  guard      G        S        S        T
  launch     G        S        S        T
  sweep      G        S        S        T
  barring    G        S        S        T
  ask        G        S        S        T
  reading    G        S        S        T
  extend     G        S        S        T
`);

const inSession: Record<string, (provider: Provider, sandbox: LiveSandbox) => Promise<unknown>> = {
  snapshot: (provider, sandbox) => provider.snapshot(sandbox, timeoutMs),
  exec: (provider, sandbox) => provider.exec(sandbox, command),
  write: (provider, sandbox) => provider.writeFiles(sandbox, [{ path: "/tmp/x", content: "x" }]),
  guard: (provider, sandbox) => provider.guardNetwork(sandbox, { allow: [], inject: [] }),
  launch: (provider, sandbox) => provider.launch(sandbox, aRunDir(), {}),
  sweep: (provider, sandbox) => provider.sweep(sandbox, aRunDir(), { commandId: "cmd_any" }),
  barring: (provider, sandbox) => provider.sweep(sandbox, aRunDir()),
  ask: (provider, sandbox) => provider.ask(sandbox, aRunDir(), "cmd_any"),
  reading: (provider, sandbox) => provider.ask(sandbox, aRunDir(), undefined),
  extend: (provider, sandbox) => provider.extend(sandbox, 1000),
};

describe("an ended provider session", { timeout: 60_000 }, () => {
  const endings: Record<string, (sandbox: LiveSandbox) => Promise<unknown>> = {
    deleted: ({ name }) => helper.remove(name),
    stopped: stop,
    async resumed(sandbox) {
      await stop(sandbox);
      await helper.resume(sandbox.name);
    },
    unconfirmed: stop,
  };

  it.concurrent.each(Object.keys(ended))(
    "is reported as ended only if a lookup confirms it: %s",
    async (row) => {
      const found = Object.keys(endings).map(async (ending) => {
        const sandbox = await aSandbox();
        const { provider, fault } = open();
        await provider.probe(sandbox.name);
        await endings[ending]?.(sandbox);
        if (ending === "unconfirmed") await fault({ route: "getSandbox", count: always, effect: outage });
        const failed = inSession[row]?.(provider, sandbox);
        const error = await failed?.then(
          (result) => expect.fail(`it returned ${JSON.stringify(result)}`),
          (reason: unknown) => reason,
        );
        return [ending, letterOf(error)];
      });
      expect(Object.fromEntries(await Promise.all(found))).toEqual(ended[row]);
    },
  );

  it("cannot be resumed if its snapshot is gone", async () => {
    const { name } = await aStopped();
    const { provider, fault } = open();
    await fault({ route: "getSandbox", effect: { type: "status", status: 410, code: "snapshot_not_found" } });
    await expect(provider.resume(name)).rejects.toMatchObject({ kind: "gone" });
  });
});

describe("create with a name that is taken", () => {
  it("is transient while an earlier call still creates the sandbox", async () => {
    const name = aName();
    const { provider, fault } = open();
    await fault({ route: "createSandbox", effect: { type: "status", status: 409 } });
    await setLatency({ createMs: 1000 });
    const earlier = helper.create({ name, tags, timeoutMs });
    await expect.poll(() => provider.probe(name).catch(String)).toContain("pending");
    await expect(provider.create({ name, tags, timeoutMs })).rejects.toMatchObject({ kind: "transient" });
    await setLatency({ createMs: 0 });
    await earlier;
    expect(await provider.create({ name, tags, timeoutMs })).toMatchObject({ name });
  });

  it("is transient if the name cannot be looked up", async () => {
    const { name } = await aSandbox();
    const { provider, fault } = open();
    await fault({ route: "getSandbox", count: always, effect: { type: "status", status: 403 } });
    await expect(provider.create({ name, tags, timeoutMs })).rejects.toMatchObject({ kind: "transient" });
  });
});

it("with no time left every operation fails at once and sends nothing", async () => {
  const sandbox = await aSandbox();
  const { provider } = open(() => 0);
  const before = await countRequests();
  const operations = [
    provider.create({ name: aName(), tags, timeoutMs }),
    provider.probe(sandbox.name),
    provider.resume(sandbox.name),
    provider.deleteSnapshot("snap_any"),
    provider.list({ stage: tags.stage }),
    provider.remove(sandbox.name),
    provider.sweep(sandbox, aRunDir(), { commandId: "cmd_any" }),
    ...Object.values(inSession).map((run) => run(provider, sandbox)),
  ];
  const results = await Promise.allSettled(operations);
  expect(new Set(results.map((one) => (one.status === "rejected" ? one.reason.kind : "ok")))).toEqual(
    new Set(["transient"]),
  );
  expect(await countRequests()).toEqual(before);
});

describe("exec past its timeout", () => {
  const sleeps = { ...command, cmd: "sleep", args: ["1000"], timeoutMs: 100 };
  const killFails = { route: "killCommand", count: always, effect: outage };

  it("fails if the kill fails, because the command may still run", async () => {
    const { provider, fault } = open();
    await fault(killFails);
    const killed = provider.exec(await aSandbox(), sleeps);
    await expect(killed).rejects.toMatchObject({ kind: "transient", hasBegun: true });
    await expect(killed).rejects.toThrow("kill a command");
  });

  it("succeeds if the command ends although the kill failed", async () => {
    const { provider, fault } = open();
    await fault(killFails);
    const ends = { ...sleeps, cmd: "sh", args: ["-c", "echo said; sleep 0.5"] };
    expect(await provider.exec(await aSandbox(), ends)).toMatchObject({ exitCode: null, stdout: "said\n" });
  });
});

describe("a sweep", () => {
  it("is repeated if it is killed, and is transient if every attempt is killed", async () => {
    const { sandbox, runDir, commandId } = await aLaunchToSweep();
    const { provider } = open();
    const { fetch } = globalThis;
    let sweeps = 0;
    // Simulates an agent that kills every sweep.
    vi.stubGlobal("fetch", (input: string, init?: RequestInit) => {
      if (!String(init?.body).includes('"sudo":true')) return fetch(input, init);
      sweeps += 1;
      const body = JSON.stringify({ command: "sh", args: ["-c", "kill -9 $$"], wait: true, logs: true });
      return fetch(input, { ...init, body });
    });
    try {
      const swept = provider.sweep(sandbox, runDir, { commandId });
      await expect(swept).rejects.toMatchObject({ kind: "transient" });
      expect(sweeps).toBe(3);
    } finally {
      vi.stubGlobal("fetch", fetch);
    }
    expect(await helper.sweep(sandbox, runDir, { commandId })).toBe("clean");
  });
});
