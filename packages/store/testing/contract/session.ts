import type { Lease } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede, winners } from "./fixture.ts";

/** Sessions with their lease and epoch. */
export function sessionContract(on: Fixture): void {
  describe("a session", () => {
    const lease = (taskId: string, at = 1): Lease => ({ taskId, turn: 1, at });
    const take = (userId: string, taskId: string, previous: Lease | null) =>
      on.store.changeSession(
        userId,
        "key",
        { lease: previous },
        {
          set: {
            lease: lease(taskId, on.now()),
            lastUsedAt: on.now(),
            expiresAt: on.now() + 60_000,
          },
        },
      );

    const creating = (name: string) =>
      ({ state: "creating", name, createdAt: 1, by: "someone", until: 2, slot: 0 }) as const;

    it("is created once, by the first lease", async () => {
      const userId = on.user();
      expect(await on.store.getSession(userId, "key")).toBeUndefined();
      const outcomes = await stampede((i) => take(userId, `task ${i}`, null));
      expect(winners(outcomes)).toHaveLength(1);
      const session = await on.store.getSession(userId, "key");
      expect(session).toEqual(winners(outcomes)[0]?.item);
      expect(session).toMatchObject({ userId, key: "key", epoch: 0, createdAt: on.now() });
    });

    it("with a dead lease is taken over once, and only by a caller that read that lease", async () => {
      const userId = on.user();
      const { item } = await take(userId, "dead", null);
      const lease = item?.lease;
      if (!lease) throw new Error("no lease");
      expect((await take(userId, "late", { ...lease, at: lease.at - 1 })).won).toBe(false);
      expect((await take(userId, "late", { ...lease, turn: lease.turn + 1 })).won).toBe(false);
      expect(winners(await stampede((i) => take(userId, `heir ${i}`, lease)))).toHaveLength(1);
    });

    it("moves to the next epoch once, and a stale writer changes nothing", async () => {
      const userId = on.user();
      const { item } = await take(userId, "task", null);
      const held = item?.lease;
      if (!held) throw new Error("no lease");
      const assign = (epoch: number) => (i: number) =>
        on.store.changeSession(
          userId,
          "key",
          { lease: held, epoch },
          { set: { epoch: epoch + 1, sandbox: creating(`box ${i}`) } },
        );
      expect(winners(await stampede(assign(0)))).toHaveLength(1);
      expect(winners(await stampede(assign(0)))).toHaveLength(0);
      expect((await on.store.getSession(userId, "key"))?.epoch).toBe(1);

      const forget = () =>
        on.store.changeSession(userId, "key", { epoch: 1 }, { set: { epoch: 2 }, remove: ["sandbox"] });
      expect(winners(await stampede(forget))).toHaveLength(1);
      expect(await on.store.getSession(userId, "key")).not.toHaveProperty("sandbox");
    });

    it("lets only the maker of its sandbox give it up, once, while it is being created", async () => {
      const userId = on.user();
      const set = { lastUsedAt: 1, expiresAt: on.now() + 60_000, epoch: 1, sandbox: creating("box") };
      await on.store.changeSession(userId, "key", { lease: null }, { set });
      const give = (maker: string) => () =>
        on.store.changeSession(
          userId,
          "key",
          { epoch: 1, maker },
          { set: { epoch: 2 }, remove: ["sandbox"] },
        );
      expect(winners(await stampede(give("another")))).toHaveLength(0);
      expect(winners(await stampede(give("someone")))).toHaveLength(1);
      const releasing = { state: "releasing", name: "box", createdAt: 1 } as const;
      await on.store.changeSession(userId, "key", { epoch: 2 }, { set: { epoch: 1, sandbox: releasing } });
      expect((await give("someone")()).won).toBe(false);
    });

    it("lets one process at a time extend or move its sandbox, until that process's time is over", async () => {
      const userId = on.user();
      const set = { lastUsedAt: 1, expiresAt: on.now() + 60_000 };
      await on.store.changeSession(userId, "key", { lease: null }, { set });
      const mark = (by: string, at: number) =>
        on.store.changeSession(
          userId,
          "key",
          { lease: null, epoch: 0, notBusyAt: at },
          {
            set: {
              sandbox: {
                state: "ready",
                name: "box",
                createdAt: 1,
                sessionId: "s",
                origin: "cold",
                startedAt: 1,
                expiresAt: 2,
                extendedAt: 1,
                busy: { by, until: at + 10 },
              },
            },
          },
        );
      expect(winners(await stampede((i) => mark(`one ${i}`, 100)))).toHaveLength(1);
      expect((await mark("late", 109)).won).toBe(false);
      expect(winners(await stampede((i) => mark(`heir ${i}`, 110)))).toHaveLength(1);
    });

    it("cannot be changed at an epoch if it does not exist", async () => {
      const outcome = await on.store.changeSession(on.user(), "key", { epoch: 0 }, { set: { epoch: 1 } });
      expect(outcome).toEqual({ won: false, item: undefined });
    });

    it("is open while it exists and is neither expired nor deleted", async () => {
      const [userId, other] = [on.user(), on.user()];
      const use = (of: string) =>
        on.store.changeSession(of, "key", { isOpen: true }, { set: { lastUsedAt: 7 } });
      expect(await use(other)).toEqual({ won: false, item: undefined });
      await take(userId, "task", null);
      expect(await use(userId)).toMatchObject({
        won: true,
        item: { lastUsedAt: 7, lease: { taskId: "task" } },
      });
      await on.store.changeSession(userId, "key", {}, { set: { deletedAt: on.now() } });
      expect((await use(userId)).won).toBe(false);
      await on.store.changeSession(userId, "key", {}, { remove: ["deletedAt"] });
      expect((await use(userId)).won).toBe(true);
      await on.store.changeSession(userId, "key", {}, { set: { expiresAt: on.now() } });
      expect(await use(userId)).toEqual({ won: false, item: undefined });
    });

    it("cannot be changed by a writer that read an earlier last use", async () => {
      const userId = on.user();
      await take(userId, "task", null);
      const { lastUsedAt } = (await on.store.getSession(userId, "key")) ?? {};
      const guard = { epoch: 0, lastUsedAt: lastUsedAt ?? 0 };
      const use = () =>
        on.store.changeSession(userId, "key", guard, { set: { lastUsedAt: guard.lastUsedAt + 1 } });
      expect(winners(await stampede(use))).toHaveLength(1);
      expect((await use()).won).toBe(false);
      const ends = (usedUntil: number) =>
        on.store.changeSession(userId, "key", { usedUntil }, { remove: ["usedUntil"] });
      expect((await ends(7)).won).toBe(false);
      await on.store.changeSession(userId, "key", { epoch: 0 }, { set: { usedUntil: 8 } });
      expect((await ends(7)).won).toBe(false);
      expect(winners(await stampede(() => ends(8)))).toHaveLength(1);
    });

    it("is listed as due, least recently used first, until it is no longer due", async () => {
      const [older, newer] = [on.user(), on.user()];
      for (const [userId, dueAt] of [
        [newer, 20],
        [older, 10],
      ] as const) {
        await on.store.changeSession(
          userId,
          "key",
          { lease: null },
          {
            set: { lease: lease("t"), lastUsedAt: 1, dueAt, expiresAt: on.now() + 60_000 },
          },
        );
      }
      const mine = async (now: number) =>
        (await on.store.listDueSessions(now, 100))
          .map(({ userId }) => userId)
          .filter((id) => id === older || id === newer);
      expect(await mine(20)).toEqual([older, newer]);
      expect(await mine(19)).toEqual([older]);
      await on.store.changeSession(older, "key", { epoch: 0 }, { remove: ["dueAt"] });
      expect(await mine(20)).toEqual([newer]);
    });

    it("is listed for its user only, newest first, in pages, until it is deleted", async () => {
      const [mine, other] = [on.user(), on.user()];
      const create = async (userId: string, key: string) => {
        on.advance(1);
        const set = { lastUsedAt: on.now(), expiresAt: on.now() + 60_000 };
        await on.store.changeSession(userId, key, { lease: null }, { set });
      };
      for (const key of ["c", "a", "b"]) await create(mine, key);
      await create(other, "theirs");
      const keysOf = (sessions: { key: string }[]) => sessions.map(({ key }) => key);
      const first = await on.store.listSessions(mine, { limit: 2 });
      expect(keysOf(first.items)).toEqual(["b", "a"]);
      const second = await on.store.listSessions(mine, { limit: 2, after: first.next ?? "" });
      expect(keysOf(second.items)).toEqual(["c"]);
      expect(second.next).toBeUndefined();
      await on.store.changeSession(mine, "a", { epoch: 0 }, { set: { deletedAt: on.now() } });
      expect(keysOf((await on.store.listSessions(mine, { limit: 9 })).items)).toEqual(["b", "c"]);
    });

    it("is listed as idle, least recently used first, while it is marked idle", async () => {
      const userId = on.user();
      const change = async (key: string, set: object) =>
        await on.store.changeSession(userId, key, { lease: null }, { set });
      const expiresAt = on.now() + 60_000;
      for (const [key, dueAt] of [
        ["b", 20],
        ["a", 10],
        ["c", 30],
      ] as const)
        await change(key, { lastUsedAt: 1, expiresAt, isIdle: true, dueAt });
      const idle = async (limit = 10) =>
        (await on.store.listIdleSessions(limit, userId)).map(({ key }) => key);
      expect(await idle()).toEqual(["a", "b", "c"]);
      expect(await idle(1)).toEqual(["a"]);
      await change("a", { isIdle: false, dueAt: 10 });
      await on.store.changeSession(userId, "c", { epoch: 0 }, { remove: ["dueAt"] });
      expect(await idle()).toEqual(["b"]);
      const everyone = await on.store.listIdleSessions(10_000);
      expect(everyone).toContainEqual({ userId, key: "b" });
      expect(await on.store.listDueSessions(20, 10_000)).toContainEqual({ userId, key: "a" });
    });

    it("can be changed by the turn that holds it, even after the lease was renewed", async () => {
      const userId = on.user();
      const taken = await take(userId, "task", null);
      const lease = { taskId: "task", turn: taken.item?.lease?.turn ?? 0, at: on.now() + 7 };
      await on.store.changeSession(userId, "key", { epoch: 0 }, { set: { lease } });
      const idle = { set: { isIdle: true, dueAt: 1 } };
      const { turn } = lease;
      const of = async (holder: { taskId: string; turn: number }) =>
        (await on.store.changeSession(userId, "key", { holder }, idle)).won;
      expect(await of({ taskId: "another", turn })).toBe(false);
      expect(await of({ taskId: "task", turn: turn + 1 })).toBe(false);
      expect(await of({ taskId: "task", turn })).toBe(true);
    });

    it("is free after it expires, and keeps its epoch", async () => {
      const userId = on.user();
      const first = await take(userId, "old", null);
      await on.store.changeSession(
        userId,
        "key",
        { lease: first.item?.lease ?? null, epoch: 0 },
        { set: { epoch: 5 } },
      );
      on.advance(60_000);
      expect(await on.store.getSession(userId, "key")).toBeUndefined();
      expect(await take(userId, "new", null)).toMatchObject({
        won: true,
        item: { epoch: 5, lease: { taskId: "new" } },
      });
    });
  });
}
