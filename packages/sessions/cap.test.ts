import { CapacityError, type SessionChange, type Store } from "@concierge/core";
import { acquireSandbox } from "@concierge/core/session/acquire";
import { beforeEach, describe, expect, it } from "vitest";
import { depsFrom } from "./manager.ts";
import { createTestPool, hour, minute, type TestPool } from "./testing/pool.ts";

const of = (userId: string, sessionKey = "default") => ({ userId, sessionKey });
const [alice, bob, carol] = [of("alice"), of("bob"), of("carol")];

let pool: TestPool;
beforeEach(() => {
  pool = createTestPool();
});

/** What exists: sandboxes, slots, and the session's record. */
async function picture(name: { userId: string; sessionKey: string }) {
  const sandboxes = pool.world.sandboxes().map((sandbox) => sandbox.name);
  return { sandboxes, slots: await pool.slots(), sandbox: (await pool.session(name))?.sandbox };
}

describe("at the cap", () => {
  it("the least recently used session is released for one without a sandbox", async () => {
    const manager = pool.manager({ poolMax: 2 });
    const first = await manager.getOrCreateSession(alice);
    pool.advance(minute);
    const second = await manager.getOrCreateSession(bob);
    pool.advance(minute);
    await manager.getOrCreateSession(alice);
    pool.advance(minute);
    const third = await manager.getOrCreateSession(carol);

    expect(pool.world.exists(second.sandbox.name)).toBe(false);
    const left = [first.sandbox.name, third.sandbox.name].sort();
    expect(
      pool.world
        .sandboxes()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(left);
    expect((await pool.slots()).sort()).toEqual(left);
    expect(await manager.checkHealth(bob)).toBe("gone");
  });

  it("a released session comes back, and another is released", async () => {
    const manager = pool.manager({ poolMax: 2 });
    for (const name of [alice, bob, carol, alice]) {
      expect(await manager.getOrCreateSession(name)).toMatchObject({ origin: "cold" });
      pool.advance(minute);
    }
    expect(await manager.isSessionValid(bob)).toBe(false);
    expect(await pool.slots()).toHaveLength(2);
  });

  it("a session with a turn is never released, even if it is the oldest", async () => {
    const manager = pool.manager({ poolMax: 2 });
    const first = await manager.getOrCreateSession(alice);
    const end = await pool.hold(alice);
    pool.advance(minute);
    const second = await manager.getOrCreateSession(bob);
    await manager.getOrCreateSession(carol);
    expect(pool.world.exists(first.sandbox.name)).toBe(true);
    expect(pool.world.exists(second.sandbox.name)).toBe(false);

    await pool.hold(carol);
    await end();
    await manager.getOrCreateSession(bob);
    expect(pool.world.exists(first.sandbox.name)).toBe(false);
    expect(await manager.isSessionValid(carol)).toBe(true);
  });

  it("a session that a turn takes at that moment is not released", async () => {
    const first = await pool.manager({ poolMax: 1 }).getOrCreateSession(alice);
    let isTaken = false;
    const getSession: typeof pool.store.getSession = async (userId, key) => {
      const session = await pool.store.getSession(userId, key);
      if (userId === "alice" && !isTaken) {
        isTaken = true;
        await pool.hold(alice);
      }
      return session;
    };
    const manager = pool.manager({ poolMax: 1, store: { ...pool.store, getSession } });
    await expect(manager.getOrCreateSession(bob)).rejects.toThrow(CapacityError);
    expect(pool.world.exists(first.sandbox.name)).toBe(true);
    expect(await pool.slots()).toEqual([first.sandbox.name]);
  });

  it("capacity is refused when turns hold all sandboxes, and nothing is half created", async () => {
    const manager = pool.manager({ poolMax: 2 });
    for (const name of [alice, bob]) {
      await manager.getOrCreateSession(name);
      await pool.hold(name);
    }
    const before = await picture(carol);
    await expect(manager.getOrCreateSession(carol)).rejects.toThrow(CapacityError);
    expect(await picture(carol)).toEqual(before);
    expect(before.sandbox).toBeUndefined();
    expect(pool.count("create")).toBe(2);
    // Sessions that have a sandbox do not block themselves.
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused" });
  });

  it("a session whose sandbox is gone gets another in its place", async () => {
    const manager = pool.manager({ poolMax: 1 });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.hold(alice);
    pool.world.lose(sandbox.name);
    const again = await manager.getOrCreateSession(alice);
    expect(await pool.slots()).toEqual([again.sandbox.name]);
  });

  it("one session is released per new one after the cap was lowered", async () => {
    const before = pool.manager({ poolMax: 50 });
    for (let i = 0; i < 6; i++) await before.getOrCreateSession(of(`user ${i}`));
    const after = pool.manager({ poolMax: 3 });
    await after.getOrCreateSession(carol);
    expect(pool.world.sandboxes().length).toBeLessThanOrEqual(6);
  });

  it("concurrent requests keep the cap, and each gets a sandbox in the end", async () => {
    const managers = [1, 2, 3].map(() => pool.manager({ poolMax: 5 }));
    let most = 0;
    const create = pool.provider.create;
    pool.provider.create = async (options) => {
      const made = await create(options);
      most = Math.max(most, pool.world.sandboxes().length);
      return made;
    };
    const come = async (i: number) => await managers[i % 3]?.getOrCreateSession(of(`user ${i}`));
    for (let wave = 0; wave < 4; wave++)
      await Promise.all(Array.from({ length: 5 }, (_, i) => come(5 * wave + i)));
    expect(most).toBeLessThanOrEqual(5);
    expect(await pool.slots()).toHaveLength(5);
    expect(pool.world.sandboxes()).toHaveLength(5);
  });
});

describe("a user's own cap", () => {
  it("releases the user's own least recently used session, never another's", async () => {
    const manager = pool.manager({ poolMax: 10, poolMaxPerUser: 2 });
    const others = await manager.getOrCreateSession(bob);
    const [a, b, c] = ["a", "b", "c"].map((key) => of("alice", key));
    for (const name of [a, b, c]) {
      pool.advance(minute);
      if (name) await manager.getOrCreateSession(name);
    }
    expect(await manager.isSessionValid(a ?? alice)).toBe(false);
    expect(await manager.isSessionValid(b ?? alice)).toBe(true);
    expect(await manager.isSessionValid(c ?? alice)).toBe(true);
    expect(pool.world.exists(others.sandbox.name)).toBe(true);
    expect(await pool.slots()).toHaveLength(3);
  });

  it("is refused when the user's turns hold all of the share, even if others are idle", async () => {
    const manager = pool.manager({ poolMax: 10, poolMaxPerUser: 1 });
    await manager.getOrCreateSession(alice);
    await manager.getOrCreateSession(bob);
    await pool.hold(alice);
    const more = of("alice", "more");
    const before = await picture(more);
    await expect(manager.getOrCreateSession(more)).rejects.toThrow(CapacityError);
    expect(await picture(more)).toEqual(before);
  });

  it("holds for concurrent sessions of one user", async () => {
    const manager = pool.manager({ poolMax: 10, poolMaxPerUser: 3 });
    const asked = Array.from({ length: 8 }, (_, i) => manager.getOrCreateSession(of("alice", `s${i}`)));
    await Promise.allSettled(asked);
    const slots = await pool.slots();
    expect(slots.length).toBeLessThanOrEqual(3);
    expect(pool.world.sandboxes()).toHaveLength(slots.length);
  });
});

describe("a warm sandbox", () => {
  const warm = async (name: string, over: { expiresAt?: number } = {}) => {
    const { store, provider, now } = pool;
    const tags = { app: "concierge", stage: "dev", pool: "warm" };
    const made = await provider.create({ name, tags, timeoutMs: 5 * hour });
    const { sessionId, startedAt: createdAt, expiresAt } = made;
    await store.createWarm({ state: "ready", name, createdAt, expiresAt, sessionId, ...over });
    await store.putSlot({ name, at: now(), pool: "warm" });
    return made;
  };

  it("goes to one of two concurrent users; the other gets a new one", async () => {
    const manager = pool.manager({ warmTarget: 1 });
    const { name } = await warm("warm-1");
    const sessions = await Promise.all([alice, bob].map((who) => manager.getOrCreateSession(who)));
    expect(sessions.map(({ origin }) => origin).sort()).toEqual(["cold", "warm"]);
    expect(sessions.filter(({ sandbox }) => sandbox.name === name)).toHaveLength(1);
    expect(await pool.slots()).toHaveLength(2);
  });

  it("is kept if only the response of the assigning write was lost", async () => {
    const { name } = await warm("warm-1");
    const store = losingAnswers(pool.store, ({ set }) => set?.sandbox?.name === name);
    const manager = pool.manager({ warmTarget: 1, store });
    expect((await manager.getOrCreateSession(alice)).sandbox.name).toBe(name);
    expect(pool.world.exists(name)).toBe(true);
    expect(pool.count("remove")).toBe(0);
  });

  it("is removed when its claimer died and the session gets another", async () => {
    const { store, now } = pool;
    const { name, expiresAt } = await warm("warm-1");
    const claimed = { name, createdAt: now(), expiresAt, claimedAt: now(), ...alice };
    await store.changeWarm(name, "ready", { state: "claimed", ...claimed });
    await store.putSlot({ name, at: now(), epoch: 1, ...alice });
    const { sandbox } = await pool.manager().getOrCreateSession(alice);
    expect(pool.world.sandboxes().map((one) => one.name)).toEqual([sandbox.name]);
  });

  it("stays with its session: reused, and removed with it", async () => {
    const manager = pool.manager({ warmTarget: 1 });
    const { name } = await warm("warm-1");
    await manager.getOrCreateSession(alice);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused", sandbox: { name } });
    await manager.invalidateSession(alice);
    expect(pool.world.exists(name)).toBe(false);
    expect(await pool.slots()).toEqual([]);
    expect((await manager.getOrCreateSession(bob)).sandbox.name).not.toBe(name);
  });

  it("replaces a lost sandbox, whose slot becomes free", async () => {
    const manager = pool.manager({ warmTarget: 1 });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await warm("warm-1");
    pool.world.lose(sandbox.name);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "warm", epoch: 2 });
    expect(await pool.slots()).toEqual(["warm-1"]);
  });

  it("is not assigned if it would not last", async () => {
    const manager = pool.manager({ warmTarget: 1 });
    await warm("warm-1", { expiresAt: pool.now() + minute });
    const until = pool.now() + hour;
    expect(await manager.getOrCreateSession(alice, { until })).toMatchObject({ origin: "cold" });
  });

  it("is not assigned if it is gone", async () => {
    const manager = pool.manager({ warmTarget: 1 });
    await warm("warm-1");
    pool.world.lose("warm-1");
    const { sandbox } = await manager.getOrCreateSession(alice);
    expect(pool.world.exists(sandbox.name)).toBe(true);
    expect(await manager.isSessionValid(alice)).toBe(true);
  });
});

/** The response of such a write is lost once: the SDK writes again and finds its own condition broken. */
function losingAnswers(store: Store, isLost: (change: SessionChange) => boolean): Store {
  let hasLost = false;
  return {
    ...store,
    async changeSession(userId, key, guard, change) {
      const outcome = await store.changeSession(userId, key, guard, change);
      if (hasLost || !outcome.won || !isLost(change)) return outcome;
      hasLost = true;
      return await store.changeSession(userId, key, guard, change);
    },
  };
}

it("an extension whose mark got no response is made at once, without polling", async () => {
  const store = losingAnswers(
    pool.store,
    ({ set }) => set?.sandbox?.state === "ready" && "busy" in set.sandbox,
  );
  await pool.manager().getOrCreateSession(alice);
  await pool.hold(alice, "task 1");
  pool.advance(2 * minute);
  const from = pool.now();
  const acquired = await acquireSandbox(depsFrom({ ...pool, store }), {
    ...alice,
    until: pool.now() + hour,
    holder: { taskId: "task 1", turn: 1 },
    by: "task 1/1",
    // Ends an endless loop.
    isWanted: async () => pool.count("probe") < 4,
    progress: async () => {},
  });
  expect(acquired).toMatchObject({ origin: "reused" });
  expect(pool.now() - from).toBeLessThan(1000);
});
