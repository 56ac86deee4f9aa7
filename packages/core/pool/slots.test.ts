import { createMemoryProvider } from "@concierge/provider";
import { createMemoryStore } from "@concierge/store";
import { beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../config.ts";
import type { RoomDeps } from "../deps.ts";
import { createFlagReader } from "../flags/index.ts";
import { longestCreateMs } from "../limits.ts";
import { confirmSlot, freeStaleSlots, giveBackSlot, takeSlot } from "./slots.ts";

const owner = { userId: "alice", sessionKey: "default" };
const number = 1;

let deps: RoomDeps;
let now: number;
beforeEach(() => {
  now = 1_800_000_000_000;
  const clock = { now: () => now, sleep: async () => {} };
  const store = createMemoryStore({ clock });
  const config = parseConfig({});
  deps = {
    config,
    clock,
    store,
    ids: { claim: () => "claim" },
    flags: createFlagReader({ store, clock }, config.flags),
    metrics: { count: () => {} },
    provider: createMemoryProvider({ clock }).provider,
  };
});

/** The session as it is while `name` is being made for it, and the slot as somebody has left it. */
async function making(name: string, slotName: string): Promise<void> {
  const { store } = deps;
  const sandbox = {
    state: "creating",
    name,
    createdAt: now,
    by: "a maker",
    until: now,
    slot: number,
  } as const;
  const set = { sandbox, epoch: 7, lastUsedAt: now, expiresAt: now + 1 };
  await store.changeSession(owner.userId, owner.sessionKey, { lease: null }, { set });
  await store.takeSlot({ number, name: slotName, at: now, ...owner });
}

const slotNames = async () => (await deps.store.listSlots()).map(({ name }) => name);

describe("the slot of a sandbox that is about to be made", () => {
  it("is confirmed where it still is his who took it", async () => {
    await making("new", "new");
    expect(await confirmSlot(deps, number, "new", owner)).toBe(number);
  });

  it("goes back to whom the session names, where another took it before he lost the session", async () => {
    await making("new", "overtaken");
    expect(await confirmSlot(deps, number, "new", owner)).toBe(number);
    expect(await slotNames()).toEqual(["new"]);
  });

  it("is taken from one who may be about to have the session, whose sandbox is left alone", async () => {
    await making("old", "another's");
    await deps.provider.create({ name: "another's", tags: {}, timeoutMs: 1000 });
    expect(await takeSlot(deps, "new", owner)).toEqual({ number, over: ["another's"] });
    expect(await confirmSlot(deps, number, "old", owner)).toBe(number);
    expect(await deps.provider.probe("another's")).toMatchObject({ health: "healthy" });
  });

  describe("taken from one that was claimed for the session, by someone who died before it was its", () => {
    const forget = () =>
      deps.store.changeSession(owner.userId, owner.sessionKey, { epoch: 7 }, { remove: ["sandbox"] });

    it.each([
      ["that one, which may still be there", forget, "claimed"],
      ["the sandbox that the session has by then", async () => {}, "current"],
    ])("goes back to %s, where he lost the session who took it", async (_to, happens, heir) => {
      await making("current", "claimed");
      const taken = await takeSlot(deps, "new", owner);
      await happens();
      await giveBackSlot(deps, taken, "new", owner);
      expect(await slotNames()).toEqual([heir]);
    });

    it("is free once that one is gone, where he died who took it", async () => {
      await making("current", "claimed");
      const { name } = await deps.provider.create({ name: "claimed", tags: {}, timeoutMs: 1000 });
      await takeSlot(deps, "new", owner);
      await takeSlot(deps, "newer", owner);
      await forget();
      await freeStaleSlots(deps);
      expect(await slotNames()).toEqual(["newer"]);
      now += longestCreateMs;
      await freeStaleSlots(deps);
      expect(await slotNames()).toEqual([]);
      expect(await deps.provider.probe(name)).toEqual({ health: "gone" });
    });
  });

  it("is left to the sandbox that the session has, where he died who took it for another", async () => {
    await making("old", "old");
    const { store, clock } = deps;
    const died = { number, name: "never made", at: clock.now() - longestCreateMs, ...owner };
    await store.takeSlot(died, "old");
    await freeStaleSlots(deps);
    expect(await slotNames()).toEqual(["never made"]);
    await store.changeSession(owner.userId, owner.sessionKey, { epoch: 7 }, { remove: ["sandbox"] });
    await freeStaleSlots(deps);
    expect(await slotNames()).toEqual([]);
  });

  it("is not taken from a sandbox made ahead by one whom the session names: he looks again", async () => {
    await making("new", "ahead");
    const claimed = { claimedAt: now, ...owner, createdAt: now, expiresAt: now + 1 };
    await deps.store.createWarm({ state: "claimed", name: "ahead", ...claimed });
    expect(await confirmSlot(deps, number, "new", owner)).toBeUndefined();
    expect(await slotNames()).toEqual(["ahead"]);
  });

  it("is left to the sandbox that the session has gone on to", async () => {
    await making("new", "new");
    expect(await confirmSlot(deps, number, "overtaken", owner)).toBeUndefined();
    expect(await slotNames()).toEqual(["new"]);
  });
});
