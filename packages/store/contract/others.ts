import { createId, type WarmSandbox } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { type Fixture, stampede, trues, winners } from "./fixture.ts";

/** Keys, warm sandboxes, flags, idempotency keys. */
export function otherContract(on: Fixture): void {
  describe("a key", () => {
    const aKey = () => ({
      id: createId("key", on.now()),
      userId: on.user(),
      admin: false,
      hash: "aGFzaA==",
      createdAt: 1,
    });

    it("is created once, read, listed newest first, and deleted once", async () => {
      const key = aKey();
      expect(winners(await stampede(() => on.store.createKey(key)))).toHaveLength(1);
      expect(await on.store.getKey(key.id)).toEqual(key);
      on.advance(1);
      const newer = aKey();
      await on.store.createKey(newer);
      const { items, next } = await on.store.listKeys({ limit: 1 });
      expect(items).toEqual([newer]);
      expect((await on.store.listKeys({ limit: 1, after: next ?? "" })).items).toEqual([key]);
      const deletions = await stampede(() => on.store.deleteKey(key.id));
      expect(deletions.filter(Boolean)).toHaveLength(1);
      expect(await on.store.getKey(key.id)).toBeUndefined();
    });
  });

  describe("a warm sandbox", () => {
    const aWarm = (): WarmSandbox => ({
      state: "creating",
      name: createId("warm", on.now()),
      createdAt: on.now(),
      expiresAt: on.now() + 60_000,
    });
    const ready = (warm: WarmSandbox): WarmSandbox => ({ ...warm, state: "ready", sessionId: "s" });

    it("is recorded once, becomes ready once, and is claimed by one session alone", async () => {
      const warm = aWarm();
      expect(trues(await stampede(() => on.store.createWarm(warm)))).toBe(1);
      expect(trues(await stampede(() => on.store.changeWarm(warm.name, "creating", ready(warm))))).toBe(1);
      const { name, createdAt, expiresAt } = warm;
      const claims = await stampede((i) =>
        on.store.changeWarm(name, "ready", {
          state: "claimed",
          name,
          createdAt,
          expiresAt,
          claimedAt: 1,
          userId: `user ${i}`,
          sessionKey: "k",
        }),
      );
      expect(trues(claims)).toBe(1);
      const winner = claims.indexOf(true);
      expect(await on.store.getWarm(name)).toMatchObject({ state: "claimed", userId: `user ${winner}` });
      expect((await on.store.listWarm()).find((one) => one.name === name)).toMatchObject({
        userId: `user ${winner}`,
      });
    });

    it("is deleted once, and only from the state it was seen in", async () => {
      const warm = aWarm();
      await on.store.createWarm(warm);
      expect(await on.store.deleteWarm(warm.name, "ready")).toBe(false);
      expect(trues(await stampede(() => on.store.deleteWarm(warm.name, "creating")))).toBe(1);
      expect(await on.store.getWarm(warm.name)).toBeUndefined();
    });
  });

  describe("the flags", () => {
    it("are none, then those that were put", async () => {
      expect(await on.store.getFlags()).toEqual({});
      await on.store.putFlags({ ENABLE_HEALTH_PROBE: "10%" });
      expect(await on.store.getFlags()).toEqual({ ENABLE_HEALTH_PROBE: "10%" });
    });
  });

  describe("an idempotency key", () => {
    it("belongs to the first, until it expires", async () => {
      const scope = on.user();
      const claim = (i: number) =>
        on.store.claimIdempotencyKey(scope, {
          requestHash: `hash ${i}`,
          taskId: `task ${i}`,
          turn: 1,
          expiresAt: on.now() + 1000,
        });
      const outcomes = await stampede(claim);
      expect(winners(outcomes)).toHaveLength(1);
      const [winner] = winners(outcomes);
      for (const { item } of outcomes) expect(item).toEqual(winner?.item);
      on.advance(1000);
      expect(winners(await stampede(claim))).toHaveLength(1);
    });
  });
}
