import { allFlags, createFlagReader } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createHouse, type House, hour, minute } from "./fixtures/testing/house.ts";

const alice = { userId: "alice", sessionKey: "default" };
const command = { cmd: "true", args: [], timeoutMs: 1000, maxBytes: 1000 };

let house: House;
beforeEach(() => {
  house = createHouse();
});

/** The health probe is switched off: the record is trusted until a use says otherwise. */
function unprobed(over: { sandboxMaxMs?: number } = {}) {
  const { store, clock } = house;
  const flags = createFlagReader({ store, clock }, { ...allFlags("on"), ENABLE_HEALTH_PROBE: "off" });
  return house.manager({ flags, ...over });
}

describe("a sandbox that has stopped", () => {
  it.each([
    ["with the probe", () => house.manager()],
    ["with the probe switched off", unprobed],
  ])("is resumed with its files, %s", async (_how, managerOf) => {
    const manager = managerOf();
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.provider.writeFiles(sandbox, [{ path: "/work/file", content: "mine" }]);
    house.world.stop(sandbox.name);
    expect(await manager.exec(alice, command)).toMatchObject({ exitCode: 0 });
    expect(house.world.created).toEqual([sandbox.name]);
    expect(house.world.files(sandbox.name)?.get("/work/file")).toBe("mine");
    expect((await house.session(alice))?.epoch).toBe(1);
  });

  it("that stops between the probe and the command is resumed", async () => {
    const manager = house.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.advance(2 * hour);
    house.justBefore("exec", async () => house.world.stop(sandbox.name));
    expect(await manager.exec(alice, command)).toMatchObject({ exitCode: 0 });
    expect(house.world.created).toEqual([sandbox.name]);
  });

  it("whose resume is refused is kept, with a clear error", async () => {
    const manager = house.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.stop(sandbox.name);
    house.fail("resume", "refused");
    await expect(manager.getOrCreateSession(alice)).rejects.toMatchObject({ kind: "refused" });
    expect((await house.session(alice))?.sandbox).toMatchObject({ state: "ready", name: sandbox.name });
    expect(house.world.exists(sandbox.name)).toBe(true);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({
      origin: "resumed",
      sandbox: { name: sandbox.name },
    });
  });

  it.each([
    ["with the probe", () => house.manager({ sandboxMaxMs: hour })],
    ["with the probe switched off", () => unprobed({ sandboxMaxMs: hour })],
  ])("because the answer of its snapshot was lost keeps its files, %s", async (_how, managerOf) => {
    const manager = managerOf();
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.provider.writeFiles(sandbox, [{ path: "/work/file", content: "mine" }]);
    house.advance(25 * minute);
    // As the SDK does it: the first request took the snapshot, the second finds the sandbox stopped.
    house.justBefore("snapshot", async () => house.world.stop(sandbox.name));
    const later = await manager.getOrCreateSession(alice, { until: house.now() + 40 * minute });
    expect(later).toMatchObject({ origin: "resumed", sandbox: { name: sandbox.name } });
    expect(house.world.files(sandbox.name)?.get("/work/file")).toBe("mine");
  });

  it("just before it is extended is resumed, also with the probe switched off", async () => {
    const manager = unprobed();
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.advance(2 * minute);
    house.justBefore("extend", async () => house.world.stop(sandbox.name));
    expect(await manager.getOrCreateSession(alice, { until: house.now() + hour })).toMatchObject({
      origin: "resumed",
      sandbox: { name: sandbox.name },
    });
  });

  it("and is gone when it is resumed is replaced", async () => {
    const manager = house.manager();
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.stop(sandbox.name);
    house.fail("resume", "gone");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold" });
    expect(house.world.exists(sandbox.name)).toBe(false);
  });
});
