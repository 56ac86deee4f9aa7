import { createMemoryStore } from "@concierge/store";
import { beforeEach, describe, expect, it } from "vitest";
import type { SandboxDeps } from "../deps.ts";
import { CapacityError } from "../errors.ts";
import { longestCreateMs } from "../limits.ts";
import { createMemoryProvider } from "../testing/memory-provider.ts";
import { aTask } from "../testing/task.ts";
import type { Slot } from "./schema.ts";
import { auditSlots, findIdle, removeLeftovers, requireCapacity, takeSlot } from "./slots.ts";

const minute = 60_000;
let now: number;
let store: SandboxDeps["store"];
let world: ReturnType<typeof createMemoryProvider>["world"];
let deps: SandboxDeps;
/** Runs during each sleep. */
let meanwhile: () => Promise<void>;
/** The writes to slots, in order. */
let writes: string[];

beforeEach(() => {
  now = 1_800_000_000_000;
  meanwhile = async () => {};
  writes = [];
  const clock = {
    now: () => now,
    sleep: async (ms: number) => {
      now += ms;
      await meanwhile();
    },
  };
  const memory = createMemoryStore({ clock });
  store = {
    ...memory,
    putSlot: async (slot) => {
      writes.push(`put ${slot.name}`);
      await memory.putSlot(slot);
    },
    deleteSlot: async (name) => {
      writes.push(`delete ${name}`);
      await memory.deleteSlot(name);
    },
  };
  const { provider, world: made } = createMemoryProvider({ clock });
  world = made;
  const config = { stage: "test", poolMax: 2, poolMaxPerUser: 2, warmTarget: 0, sessionIdleMs: 30 * minute };
  deps = { store, provider, clock, config, metrics: { count: () => {} } } as unknown as SandboxDeps;
});

const nameOf = (key: string) => `box-${key}`;
const alice = (sessionKey: string) => ({ userId: "alice", sessionKey });

async function make(name: string): Promise<void> {
  await deps.provider.create({ name, tags: {}, timeoutMs: 60 * minute });
}

/** A session with a sandbox, its slot, and a turn that has ended or not. */
async function session(key: string, { isHeld = false, usedUntil = 0, isIdle = true, userId = "alice" } = {}) {
  const name = nameOf(key);
  await make(name);
  await store.putSlot({ name, at: now, epoch: 1, userId, sessionKey: key });
  const taskId = `task_${key}`;
  const ended = { status: "succeeded", endedAt: now, result: null } as const;
  const state = isHeld ? ({ status: "running", commandId: "c" } as const) : ended;
  await store.createTask(aTask({ id: taskId, userId, sessionKey: key, state, expiresAt: now * 2 }));
  const sandbox = {
    state: "ready",
    name,
    sessionId: "s",
    createdAt: now,
    origin: "cold",
    startedAt: now,
    expiresAt: now + 60 * minute,
    extendedAt: now,
  } as const;
  await store.changeSession(
    userId,
    key,
    { lease: null },
    {
      set: {
        sandbox,
        epoch: 1,
        lease: { taskId, turn: 1, at: now },
        lastUsedAt: now,
        usedUntil,
        isIdle,
        dueAt: now + 30 * minute,
        expiresAt: now * 2,
      },
    },
  );
  writes.length = 0;
  now += minute;
}

const slotNames = async () => (await store.listSlots()).map(({ name }) => name).sort();

describe("findIdle", () => {
  it("finds the least recently used session without a turn or a command", async () => {
    await session("held", { isHeld: true });
    await session("used", { usedUntil: now + 60 * minute });
    await session("first");
    await session("second");
    expect((await findIdle(deps))?.key).toBe("first");
  });

  it("finds the least recently used of those it reads together", async () => {
    for (const key of ["first", "second", "third"]) await session(key);
    expect((await findIdle(deps))?.key).toBe("first");
  });

  it("finds none when all are in use, even if the index is stale", async () => {
    await session("held", { isHeld: true });
    await session("used", { usedUntil: now + 60 * minute });
    expect(await findIdle(deps)).toBeUndefined();
  });

  it("finds one of the user's own when the user's share is full", async () => {
    await session("first", { userId: "bob" });
    await session("second");
    expect((await findIdle(deps, "alice"))?.key).toBe("second");
  });

  it("finds different ones for takers that lost a race", async () => {
    for (const key of ["1", "2", "3", "4"]) await session(key);
    const found = await Promise.all([0, 1].map((skip) => findIdle(deps, undefined, { skip })));
    expect(found.map((one) => one?.key)).not.toContain(undefined);
    expect(found[0]?.key).not.toBe(found[1]?.key);
  });

  it("writes the successor's slot before it deletes the old one", async () => {
    await session("a");
    await session("b", { isHeld: true });
    await takeSlot(deps, { name: "box-new", epoch: 1 }, alice("new"));
    expect(writes).toEqual(["put box-new", "delete box-a"]);
    expect(await slotNames()).toEqual(["box-b", "box-new"]);
    expect(world.exists("box-a")).toBe(false);
  });
});

describe("requireCapacity", () => {
  const hasCapacity = async (owner: { userId: string; sessionKey: string }) => {
    const checked = requireCapacity(deps, owner, { patience: "request" });
    return await checked.then(
      () => true,
      (error: unknown) => {
        expect(error).toBeInstanceOf(CapacityError);
        return false;
      },
    );
  };

  it("looks twice: a turn that just ended marks its session idle a moment later", async () => {
    await session("a", { isHeld: true });
    await session("b", { isIdle: false });
    let waits = 0;
    meanwhile = async () => {
      waits += 1;
      await store.changeSession("alice", "b", { epoch: 1 }, { set: { isIdle: true, dueAt: now } });
    };
    expect(await hasCapacity(alice("new"))).toBe(true);
    expect(waits).toBe(1);
  });

  it("refuses a request after the second look", async () => {
    for (const key of ["a", "b"]) await session(key, { isHeld: true });
    let waits = 0;
    meanwhile = async () => void waits++;
    expect(await hasCapacity(alice("new"))).toBe(false);
    expect(waits).toBe(1);
  });

  it.each([
    ["a place is left", [], true],
    ["a warm one can go", [{ name: "warm", at: 0, pool: "warm" }], true],
    ["the base is being built", [{ name: "base", at: 0, pool: "base" }], false],
  ] as [string, Slot[], boolean][])("where %s", async (_what, more, room) => {
    await session("a", { isHeld: true });
    for (const slot of more) await store.putSlot(slot);
    expect(await hasCapacity(alice("new"))).toBe(room);
  });
});

describe("removeLeftovers", () => {
  const remove = async (before: "creating" | "ready" | undefined) => {
    const sandbox = before && { state: before, name: "mine-4", createdAt: now };
    const seen = { ...(await store.getSession("alice", "s")), ...alice("s"), key: "s", sandbox };
    await removeLeftovers(deps, seen as Parameters<typeof removeLeftovers>[1], { name: "mine-5", epoch: 5 });
  };
  const slot = (name: string, epoch: number, over: Partial<Slot> = {}) =>
    store.putSlot({ name, at: now, epoch, ...alice("s"), ...over });

  it("removes older sandboxes, and keeps newer ones and those of other sessions", async () => {
    for (const name of ["mine-4", "mine-5", "mine-6", "other-1"]) await make(name);
    await slot("mine-4", 4);
    await slot("mine-5", 5);
    await slot("mine-6", 6);
    await slot("other-1", 1, { sessionKey: "other" });
    await remove("ready");
    expect(world.sandboxes().map(({ name }) => name)).toEqual(["mine-5", "mine-6", "other-1"]);
    expect(await slotNames()).toEqual(["mine-5", "mine-6", "other-1"]);
  });

  it("keeps the slot of a young one, because its create may still be under way", async () => {
    await slot("mine-4", 4);
    await remove("creating");
    expect(await slotNames()).toEqual(["mine-4"]);
    await make("mine-4");
    now += longestCreateMs;
    expect(await auditSlots(deps, await store.listSlots(), { dryRun: false })).toEqual(["mine-4"]);
    expect(world.exists("mine-4")).toBe(false);
  });

  it("deletes the slot once no create can be under way", async () => {
    await slot("mine-4", 4, { at: now - longestCreateMs });
    await remove(undefined);
    expect(await slotNames()).toEqual([]);
  });
});

describe("an audit", () => {
  const audit = async (dryRun = false) => await auditSlots(deps, await store.listSlots(), { dryRun });

  it("removes sandboxes in no record, first the sandbox, then the slot", async () => {
    await session("named");
    now += longestCreateMs;
    await make("dead");
    await store.putSlot({ name: "dead", at: now - longestCreateMs, ...alice("dead") });
    await store.putSlot({ name: "young", at: now - longestCreateMs + 1, ...alice("young") });
    expect(await audit(true)).toEqual(["dead"]);
    expect(world.exists("dead")).toBe(true);
    expect(await audit()).toEqual(["dead"]);
    expect(world.sandboxes().map(({ name }) => name)).toEqual(["box-named"]);
    expect(await slotNames()).toEqual(["box-named", "young"]);
  });

  it("keeps the slot if the sandbox could not be removed", async () => {
    await store.putSlot({ name: "dead", at: now - longestCreateMs, ...alice("dead") });
    deps.provider.remove = async () => {
      throw new Error("away");
    };
    await expect(audit()).rejects.toThrow("away");
    expect(await slotNames()).toEqual(["dead"]);
  });

  it("audits a part of a large pool per pass, and all of it over several", async () => {
    for (let i = 0; i < 50; i++)
      await store.putSlot({ name: `dead-${i}`, at: now - longestCreateMs, ...alice(`dead-${i}`) });
    const slots = await store.listSlots();
    const found: string[] = [];
    for (let passes = 0; passes < 3; passes++) {
      const part = await auditSlots(deps, slots, { dryRun: true });
      expect(part.length).toBeLessThanOrEqual(20);
      found.push(...part);
      now += minute;
    }
    expect(found.sort()).toEqual(slots.map(({ name }) => name).sort());
  });

  it.each([
    ["that is being built", 1, []],
    ["whose build has taken too long", -1, ["base-1"]],
  ])("of the base %s", async (_what, leftMs, found) => {
    await store.putSlot({ name: "base-1", at: now - longestCreateMs, pool: "base" });
    const base = {
      state: "building",
      version: 1,
      fingerprint: "f",
      name: "base-1",
      until: now + leftMs,
    } as const;
    await store.putBaseSnapshot(base, 0);
    expect(await audit()).toEqual(found);
  });
});
