import { beforeEach, describe, expect, it } from "vitest";
import type { SandboxSessionManager } from "./index.ts";
import { createTestPool, hour, minute, type TestPool } from "./testing/pool.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };
const ten = <T>(ask: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: 10 }, ask));

let pool: TestPool;
let manager: SandboxSessionManager;
beforeEach(() => {
  pool = createTestPool();
  manager = pool.manager({ sandboxMaxMs: hour });
});

describe("ten concurrent callers", () => {
  it("resume a stopped sandbox once, and all get it", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.stop(sandbox.name);
    const sessions = await ten(() => manager.getOrCreateSession(alice));
    expect(new Set(sessions.map((session) => session.sandbox.sessionId)).size).toBe(1);
    expect(pool.count("create")).toBe(1);
  });

  it("get one replacement for a lost sandbox", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.lose(sandbox.name);
    const sessions = await ten(() => manager.getOrCreateSession(alice));
    expect(new Set(sessions.map((session) => session.sandbox.name)).size).toBe(1);
    expect(pool.count("create")).toBe(2);
  });

  it("near the end of its life get the sandbox it moved to, with its files", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.provider.writeFiles(sandbox, [file]);
    pool.advance(25 * minute);
    const until = pool.now() + 40 * minute;
    const sessions = await ten(() => manager.getOrCreateSession(alice, { until }));
    const names = new Set(sessions.map((session) => session.sandbox.name));
    expect(names.size).toBe(1);
    for (const name of names) expect(pool.world.files(name)?.get(file.path)).toBe("mine");
    expect(pool.count("snapshot")).toBe(1);
  });

  it("extend it with one call", async () => {
    const { sandbox, expiresAt } = await manager.getOrCreateSession(alice);
    pool.advance(10 * minute);
    await ten(() => manager.getOrCreateSession(alice));
    const found = await pool.provider.probe(sandbox.name);
    expect(found).toMatchObject({ sandbox: { expiresAt: expiresAt + 10 * minute } });
    expect(pool.count("extend")).toBe(1);
  });
});

describe("under a turn that runs", () => {
  it("a command that would outlast the sandbox does not move it away from the turn", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice, { until: pool.now() + 55 * minute });
    pool.advance(52 * minute);
    await pool.hold(alice);
    const execution = { cmd: "ls", args: [], timeoutMs: 10 * minute, maxBytes: 1000 };
    // Whether it runs or is refused does not matter here.
    await manager.exec(alice, execution).catch(() => {});
    const found = await pool.provider.probe(sandbox.name);
    expect(found).toMatchObject({ health: "healthy", sandbox });
    expect((await pool.session(alice))?.sandbox?.name).toBe(sandbox.name);
  });

  it("a sandbox that cannot be extended for a command stays", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.hold(alice);
    pool.advance(5 * minute);
    pool.fail("extend", "refused");
    await manager.getOrCreateSession(alice).catch(() => {});
    expect(await pool.provider.probe(sandbox.name)).toMatchObject({ health: "healthy", sandbox });
  });

  it("a command gets the turn's sandbox, and the turn keeps its lease", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.hold(alice, "task");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused", sandbox });
    expect((await pool.session(alice))?.lease).toMatchObject({ taskId: "task", turn: 1 });
  });
});

describe("a slow creator", () => {
  /** Runs `meanwhile` after the session was read and before the slots are listed. */
  function slowManager(meanwhile: () => Promise<void>) {
    let happens: (() => Promise<void>) | undefined = meanwhile;
    const listSlots: typeof pool.store.listSlots = async () => {
      const now = happens;
      happens = undefined;
      await now?.();
      return await pool.store.listSlots();
    };
    return pool.manager({ store: { ...pool.store, listSlots } });
  }

  it("keeps the slot of the sandbox that the session has by now", async () => {
    const slow = slowManager(async () => {
      const { sandbox } = await manager.getOrCreateSession(alice);
      pool.world.lose(sandbox.name);
      await manager.getOrCreateSession(alice);
    });
    const { sandbox, epoch } = await slow.getOrCreateSession(alice);
    expect(epoch).toBe(2);
    expect(await pool.slots()).toEqual([sandbox.name]);
    await manager.invalidateSession(alice);
    expect(await pool.slots()).toEqual([]);
  });

  it("that fails leaves its sandbox to the process that adopted it", async () => {
    const create: typeof pool.provider.create = async (options) => {
      await pool.provider.create(options);
      pool.advance(minute);
      await manager.getOrCreateSession(alice);
      throw new Error("the answer was lost");
    };
    const slow = pool.manager({ provider: { ...pool.provider, create } });
    await expect(slow.getOrCreateSession(alice)).rejects.toThrow("the answer was lost");
    const { sandbox } = (await pool.session(alice)) ?? {};
    expect(sandbox?.state).toBe("ready");
    expect(pool.world.sandboxes().map(({ name }) => name)).toEqual([sandbox?.name]);
    expect(await pool.slots()).toEqual([sandbox?.name]);
  });

  it("that succeeds keeps its sandbox, even if another process stopped waiting", async () => {
    const installing = pool.manager({ setup: "install" });
    let isLooking = () => {};
    const looking = new Promise<void>((resolve) => {
      isLooking = resolve;
    });
    let second: Promise<unknown> = Promise.resolve();
    pool.justBefore("exec", async () => {
      pool.advance(31_000);
      second = installing.getOrCreateSession(alice);
      await looking;
    });
    const first = new Promise<{ sandbox: { name: string } }>((resolve, reject) => {
      // The other process finds the sandbox, not knowing whether its setup is done, while its creator writes that it is
      // ready.
      pool.justBefore("probe", async () => {
        isLooking();
        await making.then(resolve, reject);
      });
    });
    const making = installing.getOrCreateSession(alice);
    const { sandbox } = await first;
    await second;
    expect((await pool.session(alice))?.sandbox).toMatchObject({ state: "ready", name: sandbox.name });
    expect(pool.world.created).toEqual([sandbox.name]);
  });

  it("takes no slot for a released session", async () => {
    const slow = slowManager(async () => {
      await manager.getOrCreateSession(alice);
      await manager.invalidateSession(alice);
    });
    const { sandbox } = await slow.getOrCreateSession(alice);
    expect(await pool.slots()).toEqual([sandbox.name]);
    expect(pool.world.sandboxes().map(({ name }) => name)).toEqual([sandbox.name]);
  });
});

describe("a shutdown", () => {
  it("during a create leaves no sandbox behind", async () => {
    pool.justBefore("create", async () => await manager.shutdown());
    await manager.getOrCreateSession(alice).catch(() => {});
    expect(pool.world.sandboxes()).toEqual([]);
    expect(await pool.slots()).toEqual([]);
  });
});
