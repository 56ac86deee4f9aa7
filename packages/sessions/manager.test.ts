import { AppError, type Store } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import type { SandboxSessionManager } from "./index.ts";
import { createTestPool, hour, minute, type TestPool } from "./testing/pool.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };

let pool: TestPool;
let manager: SandboxSessionManager;
beforeEach(() => {
  pool = createTestPool();
  manager = pool.manager();
});

describe("getOrCreateSession", () => {
  it("creates a sandbox for a session that has none", async () => {
    const session = await manager.getOrCreateSession(alice);
    expect(session).toMatchObject({ ...alice, origin: "cold", epoch: 1 });
    expect(session.expiresAt).toBe(pool.now() + 30 * minute);
    expect(pool.world.sandboxes().map(({ name }) => name)).toEqual([session.sandbox.name]);
    expect(await pool.slots()).toEqual([session.sandbox.name]);
  });

  it("returns the same sandbox again and creates no other", async () => {
    const first = await manager.getOrCreateSession(alice);
    for (let i = 0; i < 5; i++) {
      pool.advance(minute);
      const again = await manager.getOrCreateSession(alice);
      expect(again).toMatchObject({ origin: "reused", epoch: 1, sandbox: first.sandbox });
    }
    expect(pool.count("create")).toBe(1);
  });

  it("creates one sandbox for concurrent callers, with one manager or several", async () => {
    const managers = [manager, pool.manager(), pool.manager()];
    const asked = Array.from({ length: 30 }, (_, i) => managers[i % 3]?.getOrCreateSession(alice));
    const names = (await Promise.all(asked)).map((session) => session?.sandbox.name);
    expect(new Set(names).size).toBe(1);
    expect(pool.count("create")).toBe(1);
  });

  it("gives each session of each user its own sandbox", async () => {
    const names = [alice, { ...alice, sessionKey: "other" }, { ...alice, userId: "bob" }];
    const sessions = await Promise.all(names.map((name) => manager.getOrCreateSession(name)));
    expect(new Set(sessions.map(({ sandbox }) => sandbox.name)).size).toBe(3);
    expect(pool.world.sandboxes()).toHaveLength(3);
  });

  it("reports each step", async () => {
    const steps: string[] = [];
    const onProgress = async (step: string) => void steps.push(step);
    await manager.getOrCreateSession(alice, { onProgress });
    const { sandbox } = await manager.getOrCreateSession(alice, { onProgress });
    pool.world.stop(sandbox.name);
    await manager.getOrCreateSession(alice, { onProgress });
    expect(steps).toEqual(["creating", "probing", "probing", "resuming"]);
  });
});

describe("a sandbox that stopped, was lost or ends soon", () => {
  it("is resumed with its files in another provider session", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await pool.provider.writeFiles(sandbox, [file]);
    pool.advance(31 * minute);
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.checkHealth(alice)).toBe("resumable");

    const again = await manager.getOrCreateSession(alice);
    expect(again).toMatchObject({ origin: "resumed", epoch: 1, sandbox: { name: sandbox.name } });
    expect(again.sandbox.sessionId).not.toBe(sandbox.sessionId);
    expect(pool.world.files(sandbox.name)?.get(file.path)).toBe("mine");
    expect(pool.count("create")).toBe(1);
  });

  it("is replaced under another name when it is gone", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.lose(sandbox.name);
    expect(await manager.checkHealth(alice)).toBe("gone");
    const again = await manager.getOrCreateSession(alice);
    expect(again).toMatchObject({ origin: "cold", epoch: 2 });
    expect(again.sandbox.name).not.toBe(sandbox.name);
    expect(await pool.slots()).toEqual([again.sandbox.name]);
  });

  it("is replaced when it cannot be resumed after all", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.stop(sandbox.name);
    pool.fail("resume", "gone");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold", epoch: 2 });
    expect(pool.world.exists(sandbox.name)).toBe(false);
  });

  it("moves with its files when the plan ends before the use", async () => {
    manager = pool.manager({ sandboxMaxMs: hour });
    const { sandbox } = await manager.getOrCreateSession(alice, { until: pool.now() + 50 * minute });
    await pool.provider.writeFiles(sandbox, [file]);
    pool.advance(49 * minute);
    const moved = await manager.getOrCreateSession(alice, { until: pool.now() + 20 * minute });
    expect(moved).toMatchObject({ origin: "snapshot", epoch: 2 });
    expect(pool.world.files(moved.sandbox.name)?.get(file.path)).toBe("mine");
    expect(pool.world.exists(sandbox.name)).toBe(false);
    expect(await pool.slots()).toEqual([moved.sandbox.name]);
    expect(moved.expiresAt).toBeGreaterThanOrEqual(pool.now() + 20 * minute);
  });
});

describe("extension", () => {
  it("is one provider call a minute, however often it is used", async () => {
    await manager.getOrCreateSession(alice);
    pool.advance(10 * minute);
    for (let i = 0; i < 10; i++) {
      await manager.getOrCreateSession(alice);
      pool.advance(5000);
    }
    expect(pool.count("extend")).toBe(1);
    pool.advance(minute);
    const last = await manager.getOrCreateSession(alice);
    expect(pool.count("extend")).toBe(2);
    expect(last.expiresAt).toBe(pool.now() + 30 * minute);
  });

  it("comes at once when a use needs it", async () => {
    await manager.getOrCreateSession(alice);
    pool.advance(1000);
    const { expiresAt } = await manager.getOrCreateSession(alice, { until: pool.now() + 2 * hour });
    expect(expiresAt).toBe(pool.now() + 2 * hour);
  });

  it("never passes the plan's maximum", async () => {
    manager = pool.manager({ sandboxMaxMs: hour });
    const { startedAt, sandbox } = await manager.getOrCreateSession(alice);
    for (let i = 0; i < 19; i++) {
      pool.advance(3 * minute);
      const { expiresAt, ...used } = await manager.getOrCreateSession(alice);
      expect(used.sandbox).toEqual(sandbox);
      expect(expiresAt).toBeLessThanOrEqual(startedAt + hour);
    }
    expect(await pool.provider.probe(sandbox.name)).toMatchObject({
      sandbox: { expiresAt: startedAt + hour },
    });
  });

  it("by extendSession extends up to the plan's maximum and keeps the sandbox that long", async () => {
    manager = pool.manager({ sandboxMaxMs: hour });
    const { startedAt, sandbox, expiresAt } = await manager.getOrCreateSession(alice);
    const extended = await manager.extendSession(alice, 20 * minute);
    expect(extended).toMatchObject({
      keptUntil: pool.now() + 20 * minute,
      sandbox: { expiresAt: expiresAt + 20 * minute },
    });
    const most = await manager.extendSession(alice, 5 * hour);
    expect(most).toMatchObject({
      keptUntil: pool.now() + 5 * hour,
      sandbox: { expiresAt: startedAt + hour },
    });
    const found = await pool.provider.probe(sandbox.name);
    expect(found).toMatchObject({ sandbox: { expiresAt: startedAt + hour } });
  });

  it("is refused for a session without a running sandbox", async () => {
    const refusal = { constructor: AppError, code: "session_not_ready" };
    await expect(manager.extendSession(alice)).rejects.toMatchObject(refusal);
    const { sandbox } = await manager.getOrCreateSession(alice);
    pool.world.lose(sandbox.name);
    await expect(manager.extendSession(alice)).rejects.toMatchObject(refusal);
  });
});

describe("invalidateSession", () => {
  it("removes the sandbox and its slot, and the next use creates another", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    expect(await manager.isSessionValid(alice)).toBe(true);
    expect(await manager.invalidateSession(alice)).toBe(true);
    expect(pool.world.exists(sandbox.name)).toBe(false);
    expect(await pool.slots()).toEqual([]);
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold" });
    expect(new Set(pool.world.created).size).toBe(2);
  });

  it("is refused while a turn holds the session, and works afterwards", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    const end = await pool.hold(alice);
    expect(await manager.invalidateSession(alice)).toBe(false);
    expect(pool.world.exists(sandbox.name)).toBe(true);
    await end();
    expect(await manager.invalidateSession(alice)).toBe(true);
    expect(pool.world.exists(sandbox.name)).toBe(false);
  });

  it("succeeds for a missing session", async () => {
    expect(await manager.invalidateSession(alice)).toBe(true);
  });
});

describe("exec", () => {
  const execution = { cmd: "ls", args: [], timeoutMs: 1000, maxBytes: 1000 };

  it("runs in the session's sandbox, and creates one if needed", async () => {
    await manager.exec(alice, execution);
    await manager.exec(alice, execution);
    expect(pool.executions).toEqual([execution, execution]);
    expect(pool.count("create")).toBe(1);
  });

  it("takes one write and no probe in a sandbox that lasts", async () => {
    await manager.getOrCreateSession(alice);
    pool.advance(minute / 2);
    const probes = pool.count("probe");
    const { store, calls } = listened(pool.store);
    await pool.manager({ store }).exec(alice, execution);
    expect(calls).toEqual(["changeSession"]);
    expect(pool.count("probe")).toBe(probes);
    expect(await pool.session(alice)).toMatchObject({ lastUsedAt: pool.now() });
  });

  it("fails for a missing session that must exist, and creates nothing", async () => {
    await expect(manager.exec(alice, execution, { mustExist: true })).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await pool.session(alice)).toBeUndefined();
    expect(pool.count("create")).toBe(0);
  });

  it.each([
    ["gone", () => pool.world.lose(pool.world.created[0] ?? ""), 2],
    ["stopped, and can be resumed", () => pool.world.stop(pool.world.created[0] ?? ""), 1],
  ])("runs once if the sandbox is %s before it starts", async (_, ends, creates) => {
    await manager.getOrCreateSession(alice);
    ends();
    await manager.exec(alice, execution);
    expect(pool.executions).toEqual([execution]);
    expect(pool.count("create")).toBe(creates);
    expect(await pool.manager().isSessionValid(alice)).toBe(true);
  });

  it("extends a sandbox that would end before the command", async () => {
    const { expiresAt } = await manager.getOrCreateSession(alice);
    await manager.exec(alice, { ...execution, timeoutMs: expiresAt - pool.now() + minute });
    expect(pool.count("extend")).toBe(1);
  });

  it("waits while another process moves the sandbox", async () => {
    await manager.getOrCreateSession(alice);
    const { sandbox, epoch } = (await pool.session(alice)) ?? {};
    if (sandbox?.state !== "ready" || epoch === undefined) throw new Error("it has none");
    const until = pool.now() + minute;
    const busy = { ...sandbox, busy: { by: "another", until } };
    await pool.store.changeSession(alice.userId, alice.sessionKey, { epoch }, { set: { sandbox: busy } });
    await manager.exec(alice, execution);
    expect(pool.now()).toBeGreaterThanOrEqual(until);
  });

  it("marks the session as in use exactly while it runs", async () => {
    await manager.getOrCreateSession(alice);
    pool.justBefore("exec", async () => {
      await pool.pass(200);
      for (let passed = 0; passed < minute; passed += 5000) {
        const { lastUsedAt, usedUntil } = (await pool.session(alice)) ?? {};
        expect([lastUsedAt, usedUntil]).toEqual([pool.now(), pool.now() + 15_000]);
        await pool.pass(5000);
      }
      await pool.pass(1000);
    });
    await manager.exec(alice, execution);
    const after = await pool.session(alice);
    expect(after).toMatchObject({ lastUsedAt: pool.now() });
    expect(after).not.toHaveProperty("usedUntil");
    await pool.pass(hour);
    expect(await pool.session(alice)).toEqual(after);
  });

  it("leaves the mark to another command that still runs", async () => {
    await manager.getOrCreateSession(alice);
    const other = pool.now() + hour;
    pool.justBefore("exec", async () => {
      await pool.pass(200);
      const change = { set: { usedUntil: other } };
      await pool.store.changeSession(alice.userId, alice.sessionKey, { isOpen: true }, change);
    });
    await manager.exec(alice, execution);
    expect(await pool.session(alice)).toMatchObject({ usedUntil: other });
  });

  it("reports a sandbox that is lost repeatedly, or while the command runs", async () => {
    pool.fail("exec", "gone", 2);
    await expect(manager.exec(alice, execution)).rejects.toMatchObject({ code: "session_not_ready" });
    pool.fail("exec", "gone", 1, { hasBegun: true });
    await expect(manager.exec(alice, execution)).rejects.toMatchObject({ code: "session_not_ready" });
    expect(pool.executions).toEqual([]);
  });
});

describe("shutdown", () => {
  it("releases unused sandboxes and refuses further requests", async () => {
    const bob = { ...alice, userId: "bob" };
    await manager.getOrCreateSession(alice);
    const held = await manager.getOrCreateSession(bob);
    await pool.hold(bob);
    const others = await pool.manager().getOrCreateSession({ ...alice, userId: "carol" });
    await manager.shutdown();
    expect(await pool.slots()).toHaveLength(2);
    const left = pool.world.sandboxes().map(({ name }) => name);
    expect(left.sort()).toEqual([held.sandbox.name, others.sandbox.name].sort());
    await expect(manager.getOrCreateSession(alice)).rejects.toThrow("shut down");
    await expect(manager.extendSession(alice)).rejects.toThrow("shut down");
  });

  it("keeps sandboxes that should outlive the process", async () => {
    manager = pool.manager({ keepOnShutdown: true });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await manager.shutdown();
    await expect(manager.getOrCreateSession(alice)).rejects.toThrow("shut down");
    const next = await pool.manager().getOrCreateSession(alice);
    expect(next).toMatchObject({ origin: "reused", sandbox });
  });
});

/** Records the calls to the store. */
function listened(store: Store): { store: Store; calls: string[] } {
  const calls: string[] = [];
  const asked = Object.entries(store).map(([name, does]: [string, (...given: unknown[]) => unknown]) => [
    name,
    (...given: unknown[]) => {
      calls.push(name);
      return does(...given);
    },
  ]);
  return { store: Object.fromEntries(asked), calls };
}
