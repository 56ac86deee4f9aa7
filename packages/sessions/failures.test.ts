import { ProviderError, SetupError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createHouse, type House, hour, minute } from "./fixtures/testing/house.ts";
import type { SandboxSessionManager } from "./index.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };

let house: House;
let manager: SandboxSessionManager;
beforeEach(() => {
  house = createHouse();
  manager = house.manager({ sandboxMaxMs: hour });
});

const get = (lastsMs = 0) => manager.getOrCreateSession(alice, { until: house.now() + lastsMs });

describe("a provider that is away", () => {
  it.each([
    ["probe", async () => {}, 0],
    ["resume", async (name: string) => house.world.stop(name), 0],
    ["extend", async () => house.advance(5 * minute), 0],
    ["snapshot", async () => house.advance(25 * minute), 40 * minute],
  ] as const)(
    "in %s is told to who asks, and nothing of what is known is lost",
    async (call, befall, lastsMs) => {
      const { sandbox } = await get();
      await befall(sandbox.name);
      const before = await house.session(alice);
      for (const kind of ["transient", "throttled"] as const) {
        house.fail(call, kind);
        const failed = get(lastsMs);
        await expect(failed).rejects.toThrow(ProviderError);
        await expect(failed).rejects.toMatchObject({ kind });
        expect(await house.session(alice)).toEqual(before);
      }
      expect(house.world.exists(sandbox.name)).toBe(true);
      expect(await house.slots()).toEqual([sandbox.name]);
      expect(["reused", "resumed", "snapshot"]).toContain((await get(lastsMs)).origin);
    },
  );

  it("makes a session's health unknown, which is not valid and not gone", async () => {
    await get();
    house.fail("probe", "transient", 2);
    expect(await manager.checkHealth(alice)).toBe("unknown");
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.isSessionValid(alice)).toBe(true);
  });

  it("in create is told to who asks; who asks next waits for nobody, and what may still come is on record", async () => {
    house.fail("create", "transient");
    await expect(get()).rejects.toMatchObject({ kind: "transient" });
    expect((await house.session(alice))?.sandbox).toBeUndefined();
    // The create may still be under way: its slot stays until the reaper has looked for what came of it.
    expect(await house.slots()).toHaveLength(1);
    const from = house.now();
    expect(await get()).toMatchObject({ origin: "cold" });
    expect(house.now() - from).toBeLessThan(1000);
  });

  it("when what is gone is cleared away does not leave the session waiting for nobody", async () => {
    const { sandbox } = await get();
    house.world.lose(sandbox.name);
    house.fail("remove", "transient");
    await expect(get()).rejects.toMatchObject({ kind: "transient" });
    const from = house.now();
    expect(await get()).toMatchObject({ origin: "cold" });
    expect(house.now() - from).toBeLessThan(1000);
    expect(house.world.sandboxes()).toHaveLength(1);
  });

  it("in the create of a move leaves the files to be moved by the next who asks", async () => {
    const { sandbox } = await get();
    await house.provider.writeFiles(sandbox, [file]);
    house.advance(25 * minute);
    house.fail("create", "transient");
    await expect(get(40 * minute)).rejects.toMatchObject({ kind: "transient" });
    const moved = await get(40 * minute);
    expect(house.world.files(moved.sandbox.name)?.get(file.path)).toBe("mine");
    expect(moved.origin).toBe("snapshot");
  });

  it.each([
    ["and nothing was made", false],
    ["though it was made", true],
  ])("in the create that replaces what is gone, %s: the turn is told what it lost", async (_how, isMade) => {
    const { sandbox } = await get();
    await house.hold(alice, "task");
    house.world.lose(sandbox.name);
    const { create } = house.provider;
    house.provider.create = async (options) => {
      house.provider.create = create;
      if (isMade) await create(options);
      throw new ProviderError("transient", "Nobody knows what became of it.");
    };
    await expect(room()).rejects.toMatchObject({ kind: "transient" });
    expect(await room()).toMatchObject({ origin: "cold", replaced: { reason: "gone", kept: false } });
    expect(house.world.sandboxes()).toHaveLength(1);
  });

  const room = () =>
    manager.getRoom({
      ...alice,
      until: house.now() + minute,
      holder: { taskId: "task", turn: 1 },
      isWanted: async () => true,
      progress: async () => {},
    });
});

describe("a snapshot that is not there any more", () => {
  it("is no hindrance to a move: the session goes on, with nothing in it", async () => {
    const { sandbox } = await get();
    await house.provider.writeFiles(sandbox, [file]);
    house.advance(25 * minute);
    house.justBefore("create", async () => {
      for (const id of house.world.snapshots.keys()) house.world.loseSnapshot(id);
    });
    const moved = await get(40 * minute);
    expect(moved).toMatchObject({ origin: "cold", epoch: 2 });
    expect(house.world.sandboxes().map(({ name }) => name)).toEqual([moved.sandbox.name]);
  });
});

describe("a setup", () => {
  const broken = { exitCode: 3, stdout: "no such package", stderr: "", truncated: false };

  it("is run once in each new sandbox", async () => {
    manager = house.manager({ setup: "npm install" });
    await get();
    await get();
    expect(house.executions.map(({ cmd, args }) => [cmd, ...args])).toEqual([["sh", "-c", "npm install"]]);
  });

  it("that fails is told with what it said, and nothing is left", async () => {
    house = createHouse({ setup: () => broken });
    manager = house.manager({ setup: "npm install" });
    const failed = get();
    await expect(failed).rejects.toThrow(SetupError);
    await expect(failed).rejects.toThrow("no such package");
    expect(house.world.sandboxes()).toEqual([]);
    expect(await house.slots()).toEqual([]);
    expect((await house.session(alice))?.sandbox).toBeUndefined();
    expect(house.count("create")).toBe(1);
  });

  it("that was cut off by the maker's death is not taken for done: the sandbox is made again", async () => {
    house = createHouse();
    manager = house.manager({ setup: "npm install" });
    // Who dies in the middle never comes back to say what became of it.
    const dies = new Promise<void>((reached) => {
      house.justBefore("exec", () => {
        reached();
        return new Promise(() => {});
      });
    });
    void get();
    await dies;
    house.advance(2 * minute);
    const { sandbox, epoch } = await house.manager({ setup: "npm install" }).getOrCreateSession(alice);
    expect(epoch).toBe(2);
    expect(house.executions).toHaveLength(1);
    expect(house.world.sandboxes().map(({ name }) => name)).toEqual([sandbox.name]);
    expect(await house.slots()).toEqual([sandbox.name]);
  });
});
