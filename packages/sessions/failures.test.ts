import { ProviderError, SetupError } from "@concierge/core";
import { acquireSandbox } from "@concierge/core/session/acquire";
import { beforeEach, describe, expect, it } from "vitest";
import type { SandboxSessionManager } from "./index.ts";
import { depsFrom } from "./manager.ts";
import { createTestPool, hour, minute, type TestPool } from "./testing/pool.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };

let pool: TestPool;
let manager: SandboxSessionManager;
beforeEach(() => {
  pool = createTestPool();
  manager = pool.manager({ sandboxMaxMs: hour });
});

const get = (lastsMs = 0) => manager.getOrCreateSession(alice, { until: pool.now() + lastsMs });

describe("a provider that does not answer", () => {
  it.each([
    ["probe", async () => {}, 0],
    ["resume", async (name: string) => pool.world.stop(name), 0],
    ["extend", async () => pool.advance(5 * minute), 0],
    ["snapshot", async () => pool.advance(25 * minute), 40 * minute],
  ] as const)("in %s is reported to the caller, and no record is lost", async (call, befall, lastsMs) => {
    const { sandbox } = await get();
    await befall(sandbox.name);
    const before = await pool.session(alice);
    for (const kind of ["transient", "throttled"] as const) {
      pool.fail(call, kind);
      const failed = get(lastsMs);
      await expect(failed).rejects.toThrow(ProviderError);
      await expect(failed).rejects.toMatchObject({ kind });
      expect(await pool.session(alice)).toEqual(before);
    }
    expect(pool.world.exists(sandbox.name)).toBe(true);
    expect(await pool.slots()).toEqual([sandbox.name]);
    expect(["reused", "resumed", "snapshot"]).toContain((await get(lastsMs)).origin);
  });

  it("makes the health unknown, which is neither valid nor gone", async () => {
    await get();
    pool.fail("probe", "transient", 2);
    expect(await manager.checkHealth(alice)).toBe("unknown");
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.isSessionValid(alice)).toBe(true);
  });

  it("in create is reported; the next caller does not wait, and the possible sandbox stays recorded", async () => {
    pool.fail("create", "transient");
    await expect(get()).rejects.toMatchObject({ kind: "transient" });
    expect((await pool.session(alice))?.sandbox).toBeUndefined();
    // The create may still be under way: its slot stays until the reaper has looked for the sandbox.
    expect(await pool.slots()).toHaveLength(1);
    const from = pool.now();
    expect(await get()).toMatchObject({ origin: "cold" });
    expect(pool.now() - from).toBeLessThan(1000);
  });

  it("during cleanup does not leave the session waiting", async () => {
    const { sandbox } = await get();
    pool.world.lose(sandbox.name);
    pool.fail("remove", "transient");
    await expect(get()).rejects.toMatchObject({ kind: "transient" });
    const from = pool.now();
    expect(await get()).toMatchObject({ origin: "cold" });
    expect(pool.now() - from).toBeLessThan(1000);
    expect(pool.world.sandboxes()).toHaveLength(1);
  });

  it("in the create of a move keeps the files for the next caller", async () => {
    const { sandbox } = await get();
    await pool.provider.writeFiles(sandbox, [file]);
    pool.advance(25 * minute);
    pool.fail("create", "transient");
    await expect(get(40 * minute)).rejects.toMatchObject({ kind: "transient" });
    const moved = await get(40 * minute);
    expect(pool.world.files(moved.sandbox.name)?.get(file.path)).toBe("mine");
    expect(moved.origin).toBe("snapshot");
  });

  it.each([
    ["and nothing was made", false],
    ["though it was made", true],
  ])("in the create of a replacement, %s: the turn is told what it lost", async (_how, isMade) => {
    const { sandbox } = await get();
    await pool.hold(alice, "task");
    pool.world.lose(sandbox.name);
    const { create } = pool.provider;
    pool.provider.create = async (options) => {
      pool.provider.create = create;
      if (isMade) await create(options);
      throw new ProviderError("transient", "Nobody knows what became of it.");
    };
    await expect(acquire()).rejects.toMatchObject({ kind: "transient" });
    expect(await acquire()).toMatchObject({ origin: "cold", replaced: { reason: "gone", kept: false } });
    expect(pool.world.sandboxes()).toHaveLength(1);
  });

  const acquire = () =>
    acquireSandbox(depsFrom(pool), {
      ...alice,
      until: pool.now() + minute,
      holder: { taskId: "task", turn: 1 },
      by: "task/1",
      isWanted: async () => true,
      progress: async () => {},
    });
});

describe("a missing snapshot", () => {
  it("does not prevent a move: the session continues without files", async () => {
    const { sandbox } = await get();
    await pool.provider.writeFiles(sandbox, [file]);
    pool.advance(25 * minute);
    pool.justBefore("create", async () => {
      for (const id of pool.world.snapshots.keys()) pool.world.loseSnapshot(id);
    });
    const moved = await get(40 * minute);
    expect(moved).toMatchObject({ origin: "cold", epoch: 2 });
    expect(pool.world.sandboxes().map(({ name }) => name)).toEqual([moved.sandbox.name]);
  });
});

describe("a setup", () => {
  const broken = { exitCode: 3, stdout: "no such package", stderr: "", truncated: false };

  it("runs once in each new sandbox", async () => {
    manager = pool.manager({ setup: "npm install" });
    await get();
    await get();
    expect(pool.executions.map(({ cmd, args }) => [cmd, ...args])).toEqual([["sh", "-c", "npm install"]]);
  });

  it("that fails is reported with its output, and leaves nothing behind", async () => {
    pool = createTestPool({ setup: () => broken });
    manager = pool.manager({ setup: "npm install" });
    const failed = get();
    await expect(failed).rejects.toThrow(SetupError);
    await expect(failed).rejects.toThrow("no such package");
    expect(pool.world.sandboxes()).toEqual([]);
    expect(await pool.slots()).toEqual([]);
    expect((await pool.session(alice))?.sandbox).toBeUndefined();
    expect(pool.count("create")).toBe(1);
  });

  it("that was interrupted by its worker's death runs again in a new sandbox", async () => {
    pool = createTestPool();
    manager = pool.manager({ setup: "npm install" });
    // A process that dies never reports what it did.
    const dies = new Promise<void>((reached) => {
      pool.justBefore("exec", () => {
        reached();
        return new Promise(() => {});
      });
    });
    void get();
    await dies;
    pool.advance(2 * minute);
    const { sandbox, epoch } = await pool.manager({ setup: "npm install" }).getOrCreateSession(alice);
    expect(epoch).toBe(2);
    expect(pool.executions).toHaveLength(1);
    expect(pool.world.sandboxes().map(({ name }) => name)).toEqual([sandbox.name]);
    expect(await pool.slots()).toEqual([sandbox.name]);
  });
});
