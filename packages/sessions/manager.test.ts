import { AppError, type Store } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createHouse, type House, hour, minute } from "./fixtures/testing/house.ts";
import type { SandboxSessionManager } from "./index.ts";

const alice = { userId: "alice", sessionKey: "default" };
const file = { path: "/vercel/sandbox/notes", content: "mine" };

let house: House;
let manager: SandboxSessionManager;
beforeEach(() => {
  house = createHouse();
  manager = house.manager();
});

describe("getOrCreateSession", () => {
  it("makes a sandbox for a session that has none", async () => {
    const session = await manager.getOrCreateSession(alice);
    expect(session).toMatchObject({ ...alice, origin: "cold", epoch: 1 });
    expect(session.expiresAt).toBe(house.now() + 30 * minute);
    expect(house.world.sandboxes().map(({ name }) => name)).toEqual([session.sandbox.name]);
    expect(await house.slots()).toEqual([session.sandbox.name]);
  });

  it("gives the same one again, however often, and makes no other", async () => {
    const first = await manager.getOrCreateSession(alice);
    for (let i = 0; i < 5; i++) {
      house.advance(minute);
      const again = await manager.getOrCreateSession(alice);
      expect(again).toMatchObject({ origin: "reused", epoch: 1, sandbox: first.sandbox });
    }
    expect(house.count("create")).toBe(1);
  });

  it("makes one for many who ask at once, with one manager or with several", async () => {
    const managers = [manager, house.manager(), house.manager()];
    const asked = Array.from({ length: 30 }, (_, i) => managers[i % 3]?.getOrCreateSession(alice));
    const names = (await Promise.all(asked)).map((session) => session?.sandbox.name);
    expect(new Set(names).size).toBe(1);
    expect(house.count("create")).toBe(1);
  });

  it("gives a user's two sessions, and two users' sessions of one name, a sandbox each", async () => {
    const names = [alice, { ...alice, sessionKey: "other" }, { ...alice, userId: "bob" }];
    const sessions = await Promise.all(names.map((name) => manager.getOrCreateSession(name)));
    expect(new Set(sessions.map(({ sandbox }) => sandbox.name)).size).toBe(3);
    expect(house.world.sandboxes()).toHaveLength(3);
  });

  it("tells of each step while it is done", async () => {
    const steps: string[] = [];
    const onProgress = async (step: string) => void steps.push(step);
    await manager.getOrCreateSession(alice, { onProgress });
    const { sandbox } = await manager.getOrCreateSession(alice, { onProgress });
    house.world.stop(sandbox.name);
    await manager.getOrCreateSession(alice, { onProgress });
    expect(steps).toEqual(["creating", "probing", "probing", "resuming"]);
  });
});

describe("a sandbox that is not as it was", () => {
  it("is resumed when its time was over: the same files, in another provider session", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    await house.provider.writeFiles(sandbox, [file]);
    house.advance(31 * minute);
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.checkHealth(alice)).toBe("resumable");

    const again = await manager.getOrCreateSession(alice);
    expect(again).toMatchObject({ origin: "resumed", epoch: 1, sandbox: { name: sandbox.name } });
    expect(again.sandbox.sessionId).not.toBe(sandbox.sessionId);
    expect(house.world.files(sandbox.name)?.get(file.path)).toBe("mine");
    expect(house.count("create")).toBe(1);
  });

  it("is made anew when it is gone, under another name", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.lose(sandbox.name);
    expect(await manager.checkHealth(alice)).toBe("gone");
    const again = await manager.getOrCreateSession(alice);
    expect(again).toMatchObject({ origin: "cold", epoch: 2 });
    expect(again.sandbox.name).not.toBe(sandbox.name);
    expect(await house.slots()).toEqual([again.sandbox.name]);
  });

  it("is made anew when it can not be resumed after all", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.stop(sandbox.name);
    house.fail("resume", "gone");
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold", epoch: 2 });
    expect(house.world.exists(sandbox.name)).toBe(false);
  });

  it("moves with its files when the plan's end is nearer than the use's", async () => {
    manager = house.manager({ sandboxMaxMs: hour });
    const { sandbox } = await manager.getOrCreateSession(alice, { until: house.now() + 50 * minute });
    await house.provider.writeFiles(sandbox, [file]);
    house.advance(49 * minute);
    const moved = await manager.getOrCreateSession(alice, { until: house.now() + 20 * minute });
    expect(moved).toMatchObject({ origin: "snapshot", epoch: 2 });
    expect(house.world.files(moved.sandbox.name)?.get(file.path)).toBe("mine");
    expect(house.world.exists(sandbox.name)).toBe(false);
    expect(await house.slots()).toEqual([moved.sandbox.name]);
    expect(moved.expiresAt).toBeGreaterThanOrEqual(house.now() + 20 * minute);
  });
});

describe("extension", () => {
  it("is one call of the provider's a minute, whatever the uses", async () => {
    await manager.getOrCreateSession(alice);
    house.advance(10 * minute);
    for (let i = 0; i < 10; i++) {
      await manager.getOrCreateSession(alice);
      house.advance(5000);
    }
    expect(house.count("extend")).toBe(1);
    house.advance(minute);
    const last = await manager.getOrCreateSession(alice);
    expect(house.count("extend")).toBe(2);
    expect(last.expiresAt).toBe(house.now() + 30 * minute);
  });

  it("comes at once where a use needs it", async () => {
    await manager.getOrCreateSession(alice);
    house.advance(1000);
    const { expiresAt } = await manager.getOrCreateSession(alice, { until: house.now() + 2 * hour });
    expect(expiresAt).toBe(house.now() + 2 * hour);
  });

  it("never passes the plan's end by use", async () => {
    manager = house.manager({ sandboxMaxMs: hour });
    const { startedAt, sandbox } = await manager.getOrCreateSession(alice);
    for (let i = 0; i < 19; i++) {
      house.advance(3 * minute);
      const { expiresAt, ...used } = await manager.getOrCreateSession(alice);
      expect(used.sandbox).toEqual(sandbox);
      expect(expiresAt).toBeLessThanOrEqual(startedAt + hour);
    }
    expect(await house.provider.probe(sandbox.name)).toMatchObject({
      sandbox: { expiresAt: startedAt + hour },
    });
  });

  it("by extendSession pushes the expiry out, up to the plan's end, and keeps the room for so long", async () => {
    manager = house.manager({ sandboxMaxMs: hour });
    const { startedAt, sandbox, expiresAt } = await manager.getOrCreateSession(alice);
    const extended = await manager.extendSession(alice, 20 * minute);
    expect(extended).toMatchObject({
      keptUntil: house.now() + 20 * minute,
      sandbox: { expiresAt: expiresAt + 20 * minute },
    });
    const most = await manager.extendSession(alice, 5 * hour);
    expect(most).toMatchObject({
      keptUntil: house.now() + 5 * hour,
      sandbox: { expiresAt: startedAt + hour },
    });
    const found = await house.provider.probe(sandbox.name);
    expect(found).toMatchObject({ sandbox: { expiresAt: startedAt + hour } });
  });

  it("is refused for a session that has no sandbox that runs", async () => {
    const refusal = { constructor: AppError, code: "session_not_ready" };
    await expect(manager.extendSession(alice)).rejects.toMatchObject(refusal);
    const { sandbox } = await manager.getOrCreateSession(alice);
    house.world.lose(sandbox.name);
    await expect(manager.extendSession(alice)).rejects.toMatchObject(refusal);
  });
});

describe("invalidateSession", () => {
  it("gives the sandbox and its slot up, and the next use makes another", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    expect(await manager.isSessionValid(alice)).toBe(true);
    expect(await manager.invalidateSession(alice)).toBe(true);
    expect(house.world.exists(sandbox.name)).toBe(false);
    expect(await house.slots()).toEqual([]);
    expect(await manager.isSessionValid(alice)).toBe(false);
    expect(await manager.getOrCreateSession(alice)).toMatchObject({ origin: "cold" });
    expect(new Set(house.world.created).size).toBe(2);
  });

  it("is refused while a turn has the session, and works when it has ended", async () => {
    const { sandbox } = await manager.getOrCreateSession(alice);
    const end = await house.hold(alice);
    expect(await manager.invalidateSession(alice)).toBe(false);
    expect(house.world.exists(sandbox.name)).toBe(true);
    await end();
    expect(await manager.invalidateSession(alice)).toBe(true);
    expect(house.world.exists(sandbox.name)).toBe(false);
  });

  it("of a session that is not there is done already", async () => {
    expect(await manager.invalidateSession(alice)).toBe(true);
  });
});

describe("exec", () => {
  const execution = { cmd: "ls", args: [], timeoutMs: 1000, maxBytes: 1000 };

  it("runs in the session's sandbox, made for it where there is none", async () => {
    await manager.exec(alice, execution);
    await manager.exec(alice, execution);
    expect(house.executions).toEqual([execution, execution]);
    expect(house.count("create")).toBe(1);
  });

  it("in a sandbox that lasts takes one write, and no question how it is", async () => {
    await manager.getOrCreateSession(alice);
    house.advance(minute / 2);
    const probes = house.count("probe");
    const { store, calls } = listened(house.store);
    await house.manager({ store }).exec(alice, execution);
    expect(calls).toEqual(["changeSession"]);
    expect(house.count("probe")).toBe(probes);
    expect(await house.session(alice)).toMatchObject({ lastUsedAt: house.now() });
  });

  it("is told by one that must exist that there is none, and nothing is made", async () => {
    await expect(manager.exec(alice, execution, { mustExist: true })).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await house.session(alice)).toBeUndefined();
    expect(house.count("create")).toBe(0);
  });

  it.each([
    ["gone", () => house.world.lose(house.world.created[0] ?? ""), 2],
    ["stopped, and can be resumed", () => house.world.stop(house.world.created[0] ?? ""), 1],
  ])("runs once where the sandbox is %s before it begins", async (_, ends, creates) => {
    await manager.getOrCreateSession(alice);
    ends();
    await manager.exec(alice, execution);
    expect(house.executions).toEqual([execution]);
    expect(house.count("create")).toBe(creates);
    expect(await house.manager().isSessionValid(alice)).toBe(true);
  });

  it("extends a sandbox that would end before the command may", async () => {
    const { expiresAt } = await manager.getOrCreateSession(alice);
    await manager.exec(alice, { ...execution, timeoutMs: expiresAt - house.now() + minute });
    expect(house.count("extend")).toBe(1);
  });

  it("waits while another moves the sandbox", async () => {
    await manager.getOrCreateSession(alice);
    const { sandbox, epoch } = (await house.session(alice)) ?? {};
    if (sandbox?.state !== "ready" || epoch === undefined) throw new Error("it has none");
    const until = house.now() + minute;
    const busy = { ...sandbox, busy: { by: "another", until } };
    await house.store.changeSession(alice.userId, alice.sessionKey, { epoch }, { set: { sandbox: busy } });
    await manager.exec(alice, execution);
    expect(house.now()).toBeGreaterThanOrEqual(until);
  });

  it("says for as long as it runs that the session is in use, and no longer", async () => {
    await manager.getOrCreateSession(alice);
    house.justBefore("exec", async () => {
      await house.pass(200);
      for (let passed = 0; passed < minute; passed += 5000) {
        const { lastUsedAt, usedUntil } = (await house.session(alice)) ?? {};
        expect([lastUsedAt, usedUntil]).toEqual([house.now(), house.now() + 15_000]);
        await house.pass(5000);
      }
      await house.pass(1000);
    });
    await manager.exec(alice, execution);
    const after = await house.session(alice);
    expect(after).toMatchObject({ lastUsedAt: house.now() });
    expect(after).not.toHaveProperty("usedUntil");
    await house.pass(hour);
    expect(await house.session(alice)).toEqual(after);
  });

  it("beside another leaves it to that one to say so", async () => {
    await manager.getOrCreateSession(alice);
    const other = house.now() + hour;
    house.justBefore("exec", async () => {
      await house.pass(200);
      const change = { set: { usedUntil: other } };
      await house.store.changeSession(alice.userId, alice.sessionKey, { isOpen: true }, change);
    });
    await manager.exec(alice, execution);
    expect(await house.session(alice)).toMatchObject({ usedUntil: other });
  });

  it("says so where the sandbox goes away time and again, or while the command runs", async () => {
    house.fail("exec", "gone", 2);
    await expect(manager.exec(alice, execution)).rejects.toMatchObject({ code: "session_not_ready" });
    house.fail("exec", "gone", 1, { hasBegun: true });
    await expect(manager.exec(alice, execution)).rejects.toMatchObject({ code: "session_not_ready" });
    expect(house.executions).toEqual([]);
  });
});

describe("shutdown", () => {
  it("releases what it gave out and nobody has, and gives nothing out any more", async () => {
    const bob = { ...alice, userId: "bob" };
    await manager.getOrCreateSession(alice);
    const held = await manager.getOrCreateSession(bob);
    await house.hold(bob);
    const others = await house.manager().getOrCreateSession({ ...alice, userId: "carol" });
    await manager.shutdown();
    expect(await house.slots()).toHaveLength(2);
    const left = house.world.sandboxes().map(({ name }) => name);
    expect(left.sort()).toEqual([held.sandbox.name, others.sandbox.name].sort());
    await expect(manager.getOrCreateSession(alice)).rejects.toThrow("shut down");
    await expect(manager.extendSession(alice)).rejects.toThrow("shut down");
  });

  it("leaves them where they are to outlive the process", async () => {
    manager = house.manager({ keepOnShutdown: true });
    const { sandbox } = await manager.getOrCreateSession(alice);
    await manager.shutdown();
    await expect(manager.getOrCreateSession(alice)).rejects.toThrow("shut down");
    const next = await house.manager().getOrCreateSession(alice);
    expect(next).toMatchObject({ origin: "reused", sandbox });
  });
});

/** Tells what the store was asked for. */
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
