import type { Lease } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede, winners } from "./fixture.ts";

/** A session, its lease and its epochs. */
export function sessionContract(on: Fixture): void {
  describe("a session", () => {
    const lease = (taskId: string, at = 1): Lease => ({ taskId, turn: 1, at });
    const take = (userId: string, taskId: string, over: Lease | null) =>
      on.store.changeSession(
        userId,
        "key",
        { lease: over },
        {
          set: {
            lease: lease(taskId, on.now()),
            lastUsedAt: on.now(),
            expiresAt: on.now() + 60_000,
          },
        },
      );

    it("is created by whoever leases it first, once", async () => {
      const userId = on.user();
      expect(await on.store.getSession(userId, "key")).toBeUndefined();
      const outcomes = await stampede((i) => take(userId, `task ${i}`, null));
      expect(winners(outcomes)).toHaveLength(1);
      const session = await on.store.getSession(userId, "key");
      expect(session).toEqual(winners(outcomes)[0]?.item);
      expect(session).toMatchObject({ userId, key: "key", epoch: 0, createdAt: on.now() });
    });

    it("with a dead lease goes to one of those who saw that lease, and to none who saw another", async () => {
      const userId = on.user();
      const { item } = await take(userId, "dead", null);
      const seen = item?.lease;
      if (!seen) throw new Error("no lease");
      expect((await take(userId, "late", { ...seen, at: seen.at - 1 })).won).toBe(false);
      expect((await take(userId, "late", { ...seen, turn: seen.turn + 1 })).won).toBe(false);
      expect(winners(await stampede((i) => take(userId, `heir ${i}`, seen)))).toHaveLength(1);
    });

    it("moves from epoch to epoch once, and a stale actor moves nothing", async () => {
      const userId = on.user();
      const { item } = await take(userId, "task", null);
      const held = item?.lease;
      if (!held) throw new Error("no lease");
      const assign = (epoch: number) => (i: number) =>
        on.store.changeSession(
          userId,
          "key",
          { lease: held, epoch },
          { set: { epoch: epoch + 1, sandbox: { state: "creating", name: `box ${i}`, createdAt: 1 } } },
        );
      expect(winners(await stampede(assign(0)))).toHaveLength(1);
      expect(winners(await stampede(assign(0)))).toHaveLength(0);
      expect((await on.store.getSession(userId, "key"))?.epoch).toBe(1);

      const forget = () =>
        on.store.changeSession(userId, "key", { epoch: 1 }, { set: { epoch: 2 }, remove: ["sandbox"] });
      expect(winners(await stampede(forget))).toHaveLength(1);
      expect(await on.store.getSession(userId, "key")).not.toHaveProperty("sandbox");
    });

    it("that does not exist has no epoch to write at", async () => {
      const outcome = await on.store.changeSession(on.user(), "key", { epoch: 0 }, { set: { epoch: 1 } });
      expect(outcome).toEqual({ won: false, item: undefined });
    });

    it("is listed among what is due, the least recently used first, until it is not", async () => {
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

    it("that expired is free, and keeps its epoch", async () => {
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
