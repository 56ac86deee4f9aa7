import { createMemoryStore } from "@concierge/store";
import { beforeEach, describe, expect, it } from "vitest";
import type { SandboxDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import { longestCreateMs } from "../limits.ts";
import { createMemoryProvider } from "../testing/memory-provider.ts";
import { aTask } from "../testing/task.ts";
import { reapSession } from "./reap.ts";
import type { Session } from "./schema.ts";

const minute = 60_000;
const where = { userId: "alice", key: "s" };
let now: number;
let deps: SandboxDeps;
let world: ReturnType<typeof createMemoryProvider>["world"];

beforeEach(() => {
  now = 1_800_000_000_000;
  const clock = { now: () => now, sleep: async () => {} };
  const store = createMemoryStore({ clock });
  const { provider, world: made } = createMemoryProvider({ clock });
  world = made;
  const config = { sessionIdleMs: 30 * minute };
  deps = { store, provider, clock, config, metrics: { count: () => {} } } as unknown as SandboxDeps;
});

/** A due session with its sandbox in this state. */
async function due(state: "creating" | "ready" | "releasing", { isHeld = false, exists = true } = {}) {
  const { store, provider } = deps;
  if (exists) await provider.create({ name: "box", tags: {}, timeoutMs: 600 * minute });
  await store.putSlot({ name: "box", at: now, epoch: 1, userId: "alice", sessionKey: "s" });
  const ended = { status: "succeeded", endedAt: now, result: null } as const;
  const running = { status: "running", commandId: "c" } as const;
  const names = { id: "task_s", userId: "alice", sessionKey: "s", expiresAt: now * 2 };
  await store.createTask(aTask({ ...names, state: isHeld ? running : ended }));
  const made = { name: "box", createdAt: now };
  const life = {
    sessionId: "s",
    origin: "cold",
    startedAt: now,
    expiresAt: now * 2,
    extendedAt: now,
  } as const;
  const sandbox: Session["sandbox"] =
    state === "creating"
      ? { state, ...made, by: "claim", until: now }
      : state === "ready"
        ? { state, ...made, ...life }
        : { state, ...made };
  const lease = { taskId: "task_s", turn: 1, at: now };
  const set = { sandbox, epoch: 1, lease, lastUsedAt: now, dueAt: now, expiresAt: now * 2 };
  await store.changeSession("alice", "s", { lease: null }, { set });
}

const reap = (dryRun = false) => reapSession(deps, where, { dryRun });
const session = () => deps.store.getSession("alice", "s");
const slots = async () => (await deps.store.listSlots()).map(({ name }) => name);

describe("a release that died", () => {
  it.each([false, true])("is finished, even under a turn's lease (%s)", async (isHeld) => {
    await due("releasing", { isHeld });
    expect(await reap()).toBe("released");
    expect(world.exists("box")).toBe(false);
    expect(await slots()).toEqual([]);
    expect(await session()).toMatchObject({ epoch: 3, lost: "released" });
    expect((await session())?.sandbox).toBeUndefined();
    expect((await session())?.dueAt).toBeUndefined();
  });

  it("is finished if the sandbox is already gone", async () => {
    await due("releasing", { exists: false });
    expect(await reap()).toBe("released");
    expect((await session())?.sandbox).toBeUndefined();
  });
});

describe("a session whose handling fails", () => {
  it.each([
    ["at the look", "ready", "probe"],
    ["at the removal", "releasing", "remove"],
  ] as const)(
    "moves its due time first, so others are handled before it returns (%s)",
    async (_at, state, call) => {
      await due(state);
      now += 31 * minute;
      deps.provider[call] = async () => {
        throw new ProviderError("transient", "away");
      };
      await expect(reap()).rejects.toThrow("away");
      expect((await session())?.dueAt).toBe(now + minute);
      expect((await session())?.sandbox?.name).toBe("box");
      expect(await slots()).toEqual(["box"]);
    },
  );
});

describe("a session that is due", () => {
  it.each([
    ["under a turn", "ready", { isHeld: true }, 60 * minute, "kept"],
    ["unused for too short a time", "ready", {}, 29 * minute, "kept"],
    ["unused for long", "ready", {}, 30 * minute, "released"],
    ["whose sandbox is gone", "ready", { exists: false }, 0, "forgotten"],
    ["whose sandbox may still be on its way", "creating", {}, longestCreateMs - 1, "kept"],
    ["whose sandbox was never made", "creating", {}, longestCreateMs, "forgotten"],
    ["whose sandbox is gone, under a turn", "ready", { isHeld: true, exists: false }, 60 * minute, "kept"],
  ] as const)("%s: %s, %o, after %d ms: %s", async (_what, state, options, afterMs, fate) => {
    await due(state, options);
    now += afterMs;
    expect(await reap(true)).toBe(fate);
    expect(await slots()).toEqual(["box"]);
    expect(await reap()).toBe(fate);
    expect(world.exists("box")).toBe(fate === "kept" && !("exists" in options));
    expect(await slots()).toEqual(fate === "kept" ? ["box"] : []);
  });
});
