import { NoRoomError, type SessionChange, type Store } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createHouse, type House, hour, minute } from "./fixtures/testing/house.ts";

const of = (userId: string, sessionKey = "default") => ({ userId, sessionKey });
const [alice, bob, carol] = [of("alice"), of("bob"), of("carol")];

let house: House;
beforeEach(() => {
  house = createHouse();
});

/** What there is, whoever looks: sandboxes, slots, and the session's record. */
async function picture(name: { userId: string; sessionKey: string }) {
  const sandboxes = house.world.sandboxes().map((sandbox) => sandbox.name);
  return { sandboxes, slots: await house.slots(), sandbox: (await house.session(name))?.sandbox };
}

describe("at the cap", () => {
  it("the least recently used session gives its sandbox up for one that has none", async () => {
    const manager = house.manager({ poolMax: 2 });
    const first = await manager.getOrCreateSession(alice);
    house.advance(minute);
    const second = await manager.getOrCreateSession(bob);
    house.advance(minute);
    await manager.getOrCreateSession(alice);
    house.advance(minute);
    const third = await manager.getOrCreateSession(carol);

    expect(house.world.exists(second.sandbox.name)).toBe(false);
    const left = [first.sandbox.name, third.sandbox.name].sort();
    expect(
      house.world
        .sandboxes()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(left);
    expect((await house.slots()).sort()).toEqual(left);
    expect(await manager.checkHealth(bob)).toBe("gone");
  });

  it("whoever was put out comes back, and another goes", async () => {
    const manager = house.manager({ poolMax: 2 });
    for (const name of [alice, bob, carol, alice]) {
      expect(await manager.getOrCreateSession(name)).toMatchObject({ origin: "cold" });
      house.advance(minute);
    }
    expect(await manager.isSessionValid(bob)).toBe(false);
    expect(await house.slots()).toHaveLength(2);
  });

  it("one that a turn has never goes, though it was used longest ago", async () => {
    const manager = house.manager({ poolMax: 2 });
    const first = await manager.getOrCreateSession(alice);
    const end = await house.hold(alice);
    house.advance(minute);
    const second = await manager.getOrCreateSession(bob);
    await manager.getOrCreateSession(carol);
    expect(house.world.exists(first.sandbox.name)).toBe(true);
    expect(house.world.exists(second.sandbox.name)).toBe(false);

    await house.hold(carol);
    await end();
    await manager.getOrCreateSession(bob);
    expect(house.world.exists(first.sandbox.name)).toBe(false);
    expect(await manager.isSessionValid(carol)).toBe(true);
  });

  it("one that a turn takes in the very moment it is chosen to go does not go", async () => {
    const first = await house.manager({ poolMax: 1 }).getOrCreateSession(alice);
    let isTaken = false;
    const getSession: typeof house.store.getSession = async (userId, key) => {
      const session = await house.store.getSession(userId, key);
      if (userId === "alice" && !isTaken) {
        isTaken = true;
        await house.hold(alice);
      }
      return session;
    };
    const manager = house.manager({ poolMax: 1, store: { ...house.store, getSession } });
    await expect(manager.getOrCreateSession(bob)).rejects.toThrow(NoRoomError);
    expect(house.world.exists(first.sandbox.name)).toBe(true);
    expect(await house.slots()).toEqual([first.sandbox.name]);
  });

  it("there is no room where turns have them all, and nothing is half made", async () => {
    const manager = house.manager({ poolMax: 2 });
    for (const name of [alice, bob]) {
      await manager.getOrCreateSession(name);
      await house.hold(name);
    }
    const before = await picture(carol);
    await expect(manager.getOrCreateSession(carol)).rejects.toThrow(NoRoomError);
    expect(await picture(carol)).toEqual(before);
    expect(before.sandbox).toBeUndefined();
    expect(house.count("create")).toBe(2);
    // Those who have one are not in the way of themselves.
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused" });
  });

  it("one whose sandbox has gone gets another in the place of its own", async () => {
    const manager = house.manager({ poolMax: 1 });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.hold(alice);
    house.world.lose(sandbox.name);
    const again = await manager.getOrCreateSession(alice);
    expect(await house.slots()).toEqual([again.sandbox.name]);
  });

  it("that was lowered one goes for each that comes, as at any cap", async () => {
    const before = house.manager({ poolMax: 50 });
    for (let i = 0; i < 6; i++) await before.getOrCreateSession(of(`user ${i}`));
    const after = house.manager({ poolMax: 3 });
    await after.getOrCreateSession(carol);
    expect(house.world.sandboxes().length).toBeLessThanOrEqual(6);
  });

  it("is kept by many who come at once, and each of them gets one in the end", async () => {
    const managers = [1, 2, 3].map(() => house.manager({ poolMax: 5 }));
    let most = 0;
    const create = house.provider.create;
    house.provider.create = async (options) => {
      const made = await create(options);
      most = Math.max(most, house.world.sandboxes().length);
      return made;
    };
    const come = async (i: number) => await managers[i % 3]?.getOrCreateSession(of(`user ${i}`));
    for (let wave = 0; wave < 4; wave++)
      await Promise.all(Array.from({ length: 5 }, (_, i) => come(5 * wave + i)));
    expect(most).toBeLessThanOrEqual(5);
    expect(await house.slots()).toHaveLength(5);
    expect(house.world.sandboxes()).toHaveLength(5);
  });
});

describe("a user's own cap", () => {
  it("makes him give up his own least recently used, never another's", async () => {
    const manager = house.manager({ poolMax: 10, poolMaxPerUser: 2 });
    const others = await manager.getOrCreateSession(bob);
    const [a, b, c] = ["a", "b", "c"].map((key) => of("alice", key));
    for (const name of [a, b, c]) {
      house.advance(minute);
      if (name) await manager.getOrCreateSession(name);
    }
    expect(await manager.isSessionValid(a ?? alice)).toBe(false);
    expect(await manager.isSessionValid(b ?? alice)).toBe(true);
    expect(await manager.isSessionValid(c ?? alice)).toBe(true);
    expect(house.world.exists(others.sandbox.name)).toBe(true);
    expect(await house.slots()).toHaveLength(3);
  });

  it("is no room where his turns have all of his, though others' are idle", async () => {
    const manager = house.manager({ poolMax: 10, poolMaxPerUser: 1 });
    await manager.getOrCreateSession(alice);
    await manager.getOrCreateSession(bob);
    await house.hold(alice);
    const more = of("alice", "more");
    const before = await picture(more);
    await expect(manager.getOrCreateSession(more)).rejects.toThrow(NoRoomError);
    expect(await picture(more)).toEqual(before);
  });

  it("holds for all of his sessions that come at once", async () => {
    const manager = house.manager({ poolMax: 10, poolMaxPerUser: 3 });
    const asked = Array.from({ length: 8 }, (_, i) => manager.getOrCreateSession(of("alice", `s${i}`)));
    await Promise.allSettled(asked);
    const slots = await house.slots();
    expect(slots.length).toBeLessThanOrEqual(3);
    expect(house.world.sandboxes()).toHaveLength(slots.length);
  });
});

describe("a sandbox made ahead", () => {
  const warm = async (name: string, over: { expiresAt?: number } = {}) => {
    const { store, provider, now } = house;
    const tags = { app: "concierge", stage: "dev", pool: "warm" };
    const made = await provider.create({ name, tags, timeoutMs: 5 * hour });
    const { sessionId, startedAt: createdAt, expiresAt } = made;
    await store.createWarm({ state: "ready", name, createdAt, expiresAt, sessionId, ...over });
    await store.putSlot({ name, at: now(), pool: "warm" });
    return made;
  };

  it("is one user's of two who come at once; the other's is made for him", async () => {
    const manager = house.manager({ warmTarget: 1 });
    const { name } = await warm("warm-1");
    const sessions = await Promise.all([alice, bob].map((who) => manager.getOrCreateSession(who)));
    expect(sessions.map(({ origin }) => origin).sort()).toEqual(["cold", "warm"]);
    expect(sessions.filter(({ sandbox }) => sandbox.name === name)).toHaveLength(1);
    expect(await house.slots()).toHaveLength(2);
  });

  it("is kept where only the answer of the write was lost that made it the session's", async () => {
    const { name } = await warm("warm-1");
    const store = losingAnswers(house.store, ({ set }) => set?.sandbox?.name === name);
    const manager = house.manager({ warmTarget: 1, store });
    expect((await manager.getOrCreateSession(alice)).sandbox.name).toBe(name);
    expect(house.world.exists(name)).toBe(true);
    expect(house.count("remove")).toBe(0);
  });

  it("goes when its session gets another, should its taker have died before it was the session's", async () => {
    const { store, now } = house;
    const { name, expiresAt } = await warm("warm-1");
    const claimed = { name, createdAt: now(), expiresAt, claimedAt: now(), ...alice };
    await store.changeWarm(name, "ready", { state: "claimed", ...claimed });
    await store.putSlot({ name, at: now(), epoch: 1, ...alice });
    const { sandbox } = await house.manager().getOrCreateSession(alice);
    expect(house.world.sandboxes().map((one) => one.name)).toEqual([sandbox.name]);
  });

  it("stays its session's: used again, and gone with it", async () => {
    const manager = house.manager({ warmTarget: 1 });
    const { name } = await warm("warm-1");
    await manager.getOrCreateSession(alice);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "reused", sandbox: { name } });
    await manager.invalidateSession(alice);
    expect(house.world.exists(name)).toBe(false);
    expect(await house.slots()).toEqual([]);
    expect((await manager.getOrCreateSession(bob)).sandbox.name).not.toBe(name);
  });

  it("takes the place of one that is gone, whose slot is free again", async () => {
    const manager = house.manager({ warmTarget: 1 });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await warm("warm-1");
    house.world.lose(sandbox.name);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "warm", epoch: 2 });
    expect(await house.slots()).toEqual(["warm-1"]);
  });

  it("is not given out when it would not last", async () => {
    const manager = house.manager({ warmTarget: 1 });
    await warm("warm-1", { expiresAt: house.now() + minute });
    const until = house.now() + hour;
    expect(await manager.getOrCreateSession(alice, { until })).toMatchObject({ origin: "cold" });
  });

  it("is not given out when it is gone: what is given out is ready", async () => {
    const manager = house.manager({ warmTarget: 1 });
    await warm("warm-1");
    house.world.lose("warm-1");
    const { sandbox } = await manager.getOrCreateSession(alice);
    expect(house.world.exists(sandbox.name)).toBe(true);
    expect(await manager.isSessionValid(alice)).toBe(true);
  });
});

/** The answer of such a write is lost, once: the SDK writes again, and finds its own condition broken. */
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

it("an extension whose mark got no answer is made at once, and does not ask again and again", async () => {
  const store = losingAnswers(
    house.store,
    ({ set }) => set?.sandbox?.state === "ready" && "busy" in set.sandbox,
  );
  await house.manager().getOrCreateSession(alice);
  await house.hold(alice, "task 1");
  house.advance(2 * minute);
  const from = house.now();
  const room = await house.manager({ store }).getRoom({
    ...alice,
    until: house.now() + hour,
    holder: { taskId: "task 1", turn: 1 },
    // It ends what would go round for ever.
    isWanted: async () => house.count("probe") < 4,
    progress: async () => {},
  });
  expect(room).toMatchObject({ origin: "reused" });
  expect(house.now() - from).toBeLessThan(1000);
});
