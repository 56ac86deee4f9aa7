import { allFlags, createFlagReader } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestPool, hour, minute, type TestPool } from "./testing/pool.ts";

const alice = { userId: "alice", sessionKey: "default" };
const command = { cmd: "true", args: [], timeoutMs: 1000, maxBytes: 1000 };

let pool: TestPool;
beforeEach(() => {
  pool = createTestPool();
});

/** With the health probe off: the record is trusted until a use says otherwise. */
function unprobed(over: { sandboxMaxMs?: number } = {}) {
  const { store, clock } = pool;
  const flags = createFlagReader({ store, clock }, { ...allFlags("on"), ENABLE_HEALTH_PROBE: "off" });
  return pool.manager({ flags, ...over });
}

describe("a sandbox that has stopped", () => {
  it.each([
    ["with the probe", () => pool.manager()],
    ["with the probe switched off", unprobed],
  ])("is resumed with its files, %s", async (_how, managerOf) => {
    const manager = managerOf();
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.provider.writeFiles(sandbox, [{ path: "/work/file", content: "mine" }]);
    pool.world.stop(sandbox.name);
    expect(await manager.exec(alice, command)).toMatchObject({ exitCode: 0 });
    expect(pool.world.created).toEqual([sandbox.name]);
    expect(pool.world.files(sandbox.name)?.get("/work/file")).toBe("mine");
    expect((await pool.session(alice))?.epoch).toBe(1);
  });

  it("that stopped between the probe and the command is resumed", async () => {
    const manager = pool.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.advance(2 * hour);
    pool.justBefore("exec", async () => pool.world.stop(sandbox.name));
    expect(await manager.exec(alice, command)).toMatchObject({ exitCode: 0 });
    expect(pool.world.created).toEqual([sandbox.name]);
  });

  it("whose resume is refused is kept, with a clear error", async () => {
    const manager = pool.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.stop(sandbox.name);
    pool.fail("resume", "refused");
    await expect(manager.getOrCreateSession(alice)).rejects.toMatchObject({ kind: "refused" });
    expect((await pool.session(alice))?.sandbox).toMatchObject({ state: "ready", name: sandbox.name });
    expect(pool.world.exists(sandbox.name)).toBe(true);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({
      origin: "resumed",
      sandbox: { name: sandbox.name },
    });
  });

  it.each([
    ["with the probe", () => pool.manager({ sandboxMaxMs: hour })],
    ["with the probe switched off", () => unprobed({ sandboxMaxMs: hour })],
  ])("because its snapshot's response was lost keeps its files, %s", async (_how, managerOf) => {
    const manager = managerOf();
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.provider.writeFiles(sandbox, [{ path: "/work/file", content: "mine" }]);
    pool.advance(25 * minute);
    // As the SDK does: the first request took the snapshot, the second finds the sandbox stopped.
    pool.justBefore("snapshot", async () => pool.world.stop(sandbox.name));
    const later = await manager.getOrCreateSession(alice, { until: pool.now() + 40 * minute });
    expect(later).toMatchObject({ origin: "resumed", sandbox: { name: sandbox.name } });
    expect(pool.world.files(sandbox.name)?.get("/work/file")).toBe("mine");
  });

  it("just before it is extended is resumed, even without the probe", async () => {
    const manager = unprobed();
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.advance(2 * minute);
    pool.justBefore("extend", async () => pool.world.stop(sandbox.name));
    expect(await manager.getOrCreateSession(alice, { until: pool.now() + hour })).toMatchObject({
      origin: "resumed",
      sandbox: { name: sandbox.name },
    });
  });

  it("and is gone when it is resumed is replaced", async () => {
    const manager = pool.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.stop(sandbox.name);
    pool.fail("resume", "gone");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold" });
    expect(pool.world.exists(sandbox.name)).toBe(false);
  });
});
