import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Provider, SandboxRef } from "../ports.ts";

export interface OpenProvider {
  provider: Provider;
  /** A runner that runs until it is killed. */
  runner: string;
  /** Whether the runner launched in this directory is alive. */
  isAlive(sandbox: SandboxRef, runDir: string): Promise<boolean>;
  hasFile(sandbox: SandboxRef, path: string): Promise<boolean>;
  pass(): Promise<void>;
  close(): Promise<void>;
}

/** What any provider must do. Runs on the one in memory, and through the real SDK on the local API. */
export function providerContract(name: string, open: () => Promise<OpenProvider>): void {
  describe(`the provider ${name}`, () => {
    let opened: OpenProvider;
    let provider: Provider;
    beforeAll(async () => {
      opened = await open();
      provider = opened.provider;
    });
    afterAll(async () => await opened?.close());

    const stage = `stage-${randomUUID().slice(0, 8)}`;
    const create = (timeoutMs = 600_000) =>
      provider.create({ name: `box-${randomUUID()}`, tags: { app: "contract", stage }, timeoutMs });
    const launch = async (sandbox: SandboxRef, runDir: string) => {
      await provider.writeFiles(sandbox, [{ path: `${runDir}/runner.mjs`, content: opened.runner }]);
      return await provider.launch(sandbox, runDir, { CONCIERGE_TEST: "1" });
    };
    const healthOf = async (name: string) => (await provider.probe(name)).health;
    const stopped = async (name: string) => {
      for (let seconds = 0; seconds < 20; seconds++) {
        // During a stop the health may be unknown.
        const health = await healthOf(name).catch(() => "unknown");
        if (health === "resumable") return;
        await opened.pass();
      }
      throw new Error(`${name} did not stop`);
    };
    const listed = async (name: string) => {
      for (let cursor: string | undefined, first = true; first || cursor; first = false) {
        const page = await provider.list({ stage }, cursor);
        const found = page.items.find((sandbox) => sandbox.name === name);
        if (found) return found;
        cursor = page.next;
      }
      return undefined;
    };
    const command = { cmd: "true", args: [], timeoutMs: 10_000, maxBytes: 100 };
    const aRunDir = () => `/tmp/concierge/task_${randomUUID()}-1`;
    const alive = (sandbox: SandboxRef, runDir: string) =>
      expect.poll(() => opened.isAlive(sandbox, runDir), { timeout: 10_000 });

    it("finds a sandbox only while it exists", async () => {
      const sandbox = await create();
      expect(await provider.probe(sandbox.name)).toEqual({ health: "healthy", sandbox });
      expect(await healthOf(`${sandbox.name}-not`)).toBe("gone");
      await provider.remove(sandbox.name);
      expect(await healthOf(sandbox.name)).toBe("gone");
      await provider.remove(sandbox.name);
    });

    it("adopts a running sandbox that an earlier try of the same create made", async () => {
      const made = await create(2000);
      const again = (tags: Record<string, string>) =>
        provider.create({ name: made.name, tags, timeoutMs: 2000 });
      expect(await again({ app: "contract", stage })).toEqual(made);
      await expect(again({ app: "another", stage })).rejects.toMatchObject({ kind: "refused" });
      await stopped(made.name);
      await expect(again({ app: "contract", stage })).rejects.toMatchObject({ kind: "refused" });
    });

    it("lists a stage's sandboxes with their tags over several pages", async () => {
      const { name: mine } = await create();
      expect(await listed(mine)).toMatchObject({ isRunning: true, tags: { app: "contract", stage } });
      expect((await provider.list({ stage: "another" })).items).toEqual([]);
    });

    it("reports a missing sandbox as gone for every operation", async () => {
      const sandbox = await create();
      await provider.remove(sandbox.name);
      const gone = { kind: "gone" };
      await expect(provider.writeFiles(sandbox, [{ path: "/tmp/x", content: "" }])).rejects.toMatchObject(
        gone,
      );
      await expect(provider.sweep(sandbox, aRunDir())).rejects.toMatchObject(gone);
      await expect(provider.ask(sandbox, aRunDir(), undefined)).rejects.toMatchObject(gone);
      await expect(provider.extend(sandbox, 1000)).rejects.toMatchObject(gone);
      await expect(provider.exec(sandbox, command)).rejects.toMatchObject({ ...gone, hasBegun: false });
      await expect(provider.launch(sandbox, aRunDir(), {})).rejects.toMatchObject(gone);
      await expect(provider.resume(sandbox.name)).rejects.toMatchObject(gone);
      await expect(provider.snapshot(sandbox, 60_000)).rejects.toMatchObject(gone);
      expect(await healthOf(sandbox.name)).toBe("gone");
    });

    it("stops a sandbox when its time is over, unless it was extended", async () => {
      const short = await create(2000);
      const extended = await create(2000);
      await provider.extend(extended, 600_000);
      expect(await provider.probe(extended.name)).toMatchObject({
        sandbox: { startedAt: extended.startedAt, expiresAt: extended.expiresAt + 600_000 },
      });
      await stopped(short.name);
      await expect(provider.exec(short, command)).rejects.toMatchObject({ kind: "stopped", hasBegun: false });
      expect(await healthOf(short.name)).toBe("resumable");
      expect(await healthOf(extended.name)).toBe("healthy");
    });

    it("resumes a stopped sandbox with its files in a new provider session", async () => {
      const sandbox = await create(2000);
      await provider.writeFiles(sandbox, [{ path: "/vercel/sandbox/kept", content: "kept" }]);
      await stopped(sandbox.name);
      const late = provider.writeFiles(sandbox, [{ path: "/tmp/late", content: "" }]);
      await expect(late).rejects.toMatchObject({ kind: "stopped" });
      expect(await healthOf(sandbox.name)).toBe("resumable");
      expect(await listed(sandbox.name)).toMatchObject({ isRunning: false });

      const resumed = await provider.resume(sandbox.name);
      expect(resumed.sessionId).not.toBe(sandbox.sessionId);
      await expect(provider.sweep(sandbox, aRunDir())).rejects.toMatchObject({ kind: "stopped" });
      expect(resumed.expiresAt - resumed.startedAt).toBe(2000);
      expect(await opened.hasFile(resumed, "/vercel/sandbox/kept")).toBe(true);
      await provider.remove(sandbox.name);
      expect(await healthOf(sandbox.name)).toBe("gone");
    });

    it("creates sandboxes from a snapshot while it exists, and stops the one it was taken from", async () => {
      const sandbox = await create();
      await provider.writeFiles(sandbox, [{ path: "/vercel/sandbox/kept", content: "kept" }]);
      const snapshotId = await provider.snapshot(sandbox, 600_000);
      expect(await healthOf(sandbox.name)).not.toBe("healthy");
      await provider.remove(sandbox.name, { keepSnapshots: true });
      const from = () =>
        provider.create({ name: `box-${randomUUID()}`, tags: { stage }, timeoutMs: 600_000, snapshotId });
      const other = await from();
      expect(await opened.hasFile(other, "/vercel/sandbox/kept")).toBe(true);
      expect(await opened.hasFile(await create(), "/vercel/sandbox/kept")).toBe(false);
      await provider.deleteSnapshot(snapshotId);
      await provider.deleteSnapshot(snapshotId);
      await expect(from()).rejects.toMatchObject({ kind: "gone" });
    });

    it("sweeps a launch, repeatedly reports clean, and keeps the sandbox", async () => {
      const sandbox = await create();
      const runDir = aRunDir();
      const commandId = await launch(sandbox, runDir);
      await alive(sandbox, runDir).toBe(true);
      expect(await provider.sweep(sandbox, runDir, { commandId })).toBe("clean");
      expect(await opened.isAlive(sandbox, runDir)).toBe(false);
      expect(await healthOf(sandbox.name)).toBe("healthy");
      expect(await provider.sweep(sandbox, runDir, { commandId })).toBe("clean");
    });

    it("reports clean only for dead launches, also for an unknown or second command", async () => {
      const sandbox = await create();
      for (const again of [async () => undefined, async () => "cmd_unknown", launch]) {
        const runDir = aRunDir();
        await launch(sandbox, runDir);
        await alive(sandbox, runDir).toBe(true);
        const commandId = await again(sandbox, runDir);
        // A second launch that is signalled before it finds itself barred ends without a result.
        const asked = async () => (await provider.ask(sandbox, runDir, commandId)).launch;
        await expect.poll(asked, { timeout: 10_000 }).toBe("unknown");
        const found = await provider.sweep(sandbox, runDir, { commandId });
        expect(found).toBe((await opened.isAlive(sandbox, runDir)) ? "alive" : "clean");
      }
    });

    it("bars a launch that has not happened", async () => {
      const sandbox = await create();
      const runDir = aRunDir();
      expect(await provider.sweep(sandbox, runDir)).toBe("clean");
      await launch(sandbox, runDir).catch(() => {});
      const next = aRunDir();
      await launch(sandbox, next);
      await alive(sandbox, next).toBe(true);
      await alive(sandbox, runDir).toBe(false);
    });

    it("touches nothing when another turn's files are there", async () => {
      const sandbox = await create();
      const [ended, next] = [aRunDir(), aRunDir()];
      const commandId = await launch(sandbox, ended);
      await alive(sandbox, ended).toBe(true);
      expect(await provider.sweep(sandbox, ended, { commandId })).toBe("clean");
      const name = next.slice("/tmp/concierge/".length);
      await provider.writeFiles(sandbox, [{ path: "/tmp/concierge/current", content: `${name}\n` }]);
      await launch(sandbox, next);
      await alive(sandbox, next).toBe(true);

      expect(await provider.sweep(sandbox, ended, {})).toBe("superseded");
      expect(await opened.isAlive(sandbox, next)).toBe(true);
      expect(await provider.sweep(sandbox, ended, { commandId, evenIfSuperseded: true })).toBe("clean");
      expect(await opened.isAlive(sandbox, next)).toBe(false);
    });

    it("spares processes that started before the turn", async () => {
      const sandbox = await create();
      const [earlier, later] = [aRunDir(), aRunDir()];
      await launch(sandbox, earlier);
      await alive(sandbox, earlier).toBe(true);
      await opened.pass();
      const commandId = await launch(sandbox, later);
      await alive(sandbox, later).toBe(true);
      expect(await provider.sweep(sandbox, later, { commandId })).toBe("clean");
      expect(await opened.isAlive(sandbox, later)).toBe(false);
      expect(await opened.isAlive(sandbox, earlier)).toBe(true);
    });

    it("reports clean for concurrent sweeps", async () => {
      const sandbox = await create();
      const runDir = aRunDir();
      const commandId = await launch(sandbox, runDir);
      await alive(sandbox, runDir).toBe(true);
      const sweep = () => provider.sweep(sandbox, runDir, { commandId });
      const sweeps = await Promise.all([sweep(), sweep(), sweep(), sweep()]);
      expect(sweeps).toContain("clean");
      expect(await opened.isAlive(sandbox, runDir)).toBe(false);
    });

    it("reports whether the launch runs, and nothing about a launch that never was", async () => {
      const sandbox = await create();
      const runDir = aRunDir();
      const unknown = { launch: "unknown", state: undefined };
      expect(await provider.ask(sandbox, runDir, undefined)).toEqual(unknown);
      expect(await provider.ask(sandbox, runDir, "cmd_unknown")).toEqual(unknown);
      const commandId = await launch(sandbox, runDir);
      await alive(sandbox, runDir).toBe(true);
      expect(await provider.ask(sandbox, runDir, commandId)).toEqual({ launch: "running", state: undefined });
      // A second launch exits at once; it did not start the runner.
      const second = await launch(sandbox, runDir);
      await expect.poll(() => provider.ask(sandbox, runDir, second)).toEqual(unknown);
      expect(await provider.sweep(sandbox, runDir, { commandId })).toBe("clean");
      expect(await provider.ask(sandbox, runDir, commandId)).toEqual({ launch: "exited", state: undefined });
    });
  });
}
