import { beforeEach, describe, expect, it } from "vitest";
import { createHouse, type House, hour, minute } from "./fixtures/testing/house.ts";
import type { SandboxSessionManager } from "./index.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };
const ten = <T>(ask: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: 10 }, ask));

let house: House;
let manager: SandboxSessionManager;
beforeEach(() => {
  house = createHouse();
  manager = house.manager({ sandboxMaxMs: hour });
});

describe("ten who ask at once", () => {
  it("resume a sandbox whose time was over, and all get that one", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.stop(sandbox.name);
    const sessions = await ten(() => manager.getOrCreateSession(alice));
    expect(new Set(sessions.map((session) => session.sandbox.sessionId)).size).toBe(1);
    expect(house.count("create")).toBe(1);
  });

  it("after it has gone get the one other that is made", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.lose(sandbox.name);
    const sessions = await ten(() => manager.getOrCreateSession(alice));
    expect(new Set(sessions.map((session) => session.sandbox.name)).size).toBe(1);
    expect(house.count("create")).toBe(2);
  });

  it("near the end of its life all get the one it moved to, with its files", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.provider.writeFiles(sandbox, [file]);
    house.advance(25 * minute);
    const until = house.now() + 40 * minute;
    const sessions = await ten(() => manager.getOrCreateSession(alice, { until }));
    const names = new Set(sessions.map((session) => session.sandbox.name));
    expect(names.size).toBe(1);
    for (const name of names) expect(house.world.files(name)?.get(file.path)).toBe("mine");
    expect(house.count("snapshot")).toBe(1);
  });

  it("push the expiry out by one call", async () => {
    const { sandbox, expiresAt } = await manager.getOrCreateSession(alice);
    house.advance(10 * minute);
    await ten(() => manager.getOrCreateSession(alice));
    const found = await house.provider.probe(sandbox.name);
    expect(found).toMatchObject({ sandbox: { expiresAt: expiresAt + 10 * minute } });
    expect(house.count("extend")).toBe(1);
  });
});

describe("under a turn that runs", () => {
  it("a command that would outlast the sandbox does not take it away from the turn", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice, { until: house.now() + 55 * minute });
    house.advance(52 * minute);
    await house.hold(alice);
    const execution = { cmd: "ls", args: [], timeoutMs: 10 * minute, maxBytes: 1000 };
    // Whether it is run for as long as there is, or refused, is not asked here.
    await manager.exec(alice, execution).catch(() => {});
    const found = await house.provider.probe(sandbox.name);
    expect(found).toMatchObject({ health: "healthy", sandbox });
    expect((await house.session(alice))?.sandbox?.name).toBe(sandbox.name);
  });

  it("a sandbox that can not be extended for another's use does not go", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.hold(alice);
    house.advance(5 * minute);
    house.fail("extend", "refused");
    await manager.getOrCreateSession(alice).catch(() => {});
    expect(await house.provider.probe(sandbox.name)).toMatchObject({ health: "healthy", sandbox });
  });

  it("one who asks gets the turn's own sandbox, and the turn keeps its lease", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.hold(alice, "task");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused", sandbox });
    expect((await house.session(alice))?.lease).toMatchObject({ taskId: "task", turn: 1 });
  });
});

describe("one who is slow", () => {
  /** After he has read the session, and before he looks which slots there are, all this happens. */
  function slowManager(meanwhile: () => Promise<void>) {
    let happens: (() => Promise<void>) | undefined = meanwhile;
    const listSlots: typeof house.store.listSlots = async () => {
      const now = happens;
      happens = undefined;
      await now?.();
      return await house.store.listSlots();
    };
    return house.manager({ store: { ...house.store, listSlots } });
  }

  it("leaves the slot in the name of the sandbox that the session has by now", async () => {
    const slow = slowManager(async () => {
      const { sandbox } = await manager.getOrCreateSession(alice);
      house.world.lose(sandbox.name);
      await manager.getOrCreateSession(alice);
    });
    const { sandbox, epoch } = await slow.getOrCreateSession(alice);
    expect(epoch).toBe(2);
    expect(await house.slots()).toEqual([sandbox.name]);
    await manager.invalidateSession(alice);
    expect(await house.slots()).toEqual([]);
  });

  it("and fails in the end, leaves what he made to whoever has taken it into use meanwhile", async () => {
    const create: typeof house.provider.create = async (options) => {
      await house.provider.create(options);
      house.advance(minute);
      await manager.getOrCreateSession(alice);
      throw new Error("the answer was lost");
    };
    const slow = house.manager({ provider: { ...house.provider, create } });
    await expect(slow.getOrCreateSession(alice)).rejects.toThrow("the answer was lost");
    const { sandbox } = (await house.session(alice)) ?? {};
    expect(sandbox?.state).toBe("ready");
    expect(house.world.sandboxes().map(({ name }) => name)).toEqual([sandbox?.name]);
    expect(await house.slots()).toEqual([sandbox?.name]);
  });

  it("that is ready at last keeps its sandbox, though another had waited long enough to make one itself", async () => {
    const installing = house.manager({ setup: "install" });
    let isLooking = () => {};
    const looking = new Promise<void>((resolve) => {
      isLooking = resolve;
    });
    let second: Promise<unknown> = Promise.resolve();
    house.justBefore("exec", async () => {
      house.advance(31_000);
      second = installing.getOrCreateSession(alice);
      await looking;
    });
    const first = new Promise<{ sandbox: { name: string } }>((resolve, reject) => {
      // The other finds the sandbox, not knowing whether all is installed in it, while its maker writes that it is ready.
      house.justBefore("probe", async () => {
        isLooking();
        await making.then(resolve, reject);
      });
    });
    const making = installing.getOrCreateSession(alice);
    const { sandbox } = await first;
    await second;
    expect((await house.session(alice))?.sandbox).toMatchObject({ state: "ready", name: sandbox.name });
    expect(house.world.created).toEqual([sandbox.name]);
  });

  it("takes no slot for a session that has been given up", async () => {
    const slow = slowManager(async () => {
      await manager.getOrCreateSession(alice);
      await manager.invalidateSession(alice);
    });
    const { sandbox } = await slow.getOrCreateSession(alice);
    expect(await house.slots()).toEqual([sandbox.name]);
    expect(house.world.sandboxes().map(({ name }) => name)).toEqual([sandbox.name]);
  });
});

describe("a shutdown", () => {
  it("while a sandbox is being made leaves none behind", async () => {
    house.justBefore("create", async () => await manager.shutdown());
    await manager.getOrCreateSession(alice).catch(() => {});
    expect(house.world.sandboxes()).toEqual([]);
    expect(await house.slots()).toEqual([]);
  });
});
