import { createId, type WarmSandbox } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { contenders, type Fixture, stampede, trues, winners } from "./fixture.ts";

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

  describe("a slot", () => {
    it("is one per sandbox, and a taker that lists after its write sees all earlier writes", async () => {
      const run = on.number();
      const name = (i: number) => `box ${run}-${i}`;
      const mine = async () =>
        (await on.store.listSlots()).filter((slot) => slot.name.startsWith(`box ${run}-`));
      const counts = await stampede(async (i) => {
        await on.store.putSlot({ name: name(i), at: i, pool: "warm" });
        return (await mine()).length;
      });
      expect(Math.max(...counts)).toBe(counts.length);
      await on.store.putSlot({ name: name(0), at: 1, epoch: 2, userId: "u", sessionKey: "k" });
      expect((await mine()).filter((slot) => slot.name === name(0))).toEqual([
        { name: name(0), at: 1, epoch: 2, userId: "u", sessionKey: "k" },
      ]);
      await Promise.all(counts.map((_, i) => on.store.deleteSlot(name(i))));
      await on.store.deleteSlot(name(0));
      expect(await mine()).toEqual([]);
    });
  });

  describe("the reaper's cursor", () => {
    it("is the last one put, or undefined", async () => {
      await on.store.putReapCursor("page 2");
      expect(await on.store.getReapCursor()).toBe("page 2");
      await on.store.putReapCursor(undefined);
      expect(await on.store.getReapCursor()).toBeUndefined();
    });
  });

  describe("the base snapshot", () => {
    it("is replaced once per version", async () => {
      const readVersion = (await on.store.getBaseSnapshot())?.version ?? 0;
      const base = (i: number) =>
        ({ state: "failed", version: readVersion + 1, fingerprint: `f${i}`, detail: "", at: i }) as const;
      const puts = await stampede((i) => on.store.putBaseSnapshot(base(i), readVersion));
      expect(trues(puts)).toBe(1);
      expect(await on.store.getBaseSnapshot()).toEqual(base(puts.indexOf(true)));
      expect(await on.store.putBaseSnapshot(base(0), readVersion)).toBe(false);
    });

    it("is not replaced by a writer that read another version or none", async () => {
      const before = await on.store.getBaseSnapshot();
      const version = before?.version ?? 0;
      const base = { state: "failed", version: version + 9, fingerprint: "f", detail: "", at: 1 } as const;
      for (const readVersion of [version + 1, Math.max(version - 1, 0), version + 100])
        if (readVersion !== version) expect(await on.store.putBaseSnapshot(base, readVersion)).toBe(false);
      expect(await on.store.getBaseSnapshot()).toEqual(before);
      // The stored version counts, not the previous one plus one.
      expect(await on.store.putBaseSnapshot(base, version)).toBe(true);
      expect(await on.store.putBaseSnapshot({ ...base, version: version + 10 }, version + 1)).toBe(false);
      expect(await on.store.putBaseSnapshot({ ...base, version: version + 10 }, 0)).toBe(false);
      expect(await on.store.getBaseSnapshot()).toEqual(base);
      expect(await on.store.putBaseSnapshot({ ...base, version: version + 10 }, version + 9)).toBe(true);
    });
  });

  describe("the usage of a user's day", () => {
    it("adds up under concurrency, separately per user and day", async () => {
      const [mine, other] = [on.user(), on.user()];
      const day = `2026-01-${on.number()}`;
      const expiresAt = on.now() + 60_000;
      const sums = await stampede(() => on.store.addUsage(day, mine, { turns: 1, agentMs: 2 }, expiresAt));
      // Each writer gets the sum after its own write, so exactly one was first.
      expect(sums.map(({ counters }) => counters.turns).sort((a = 0, b = 0) => a - b)).toEqual(
        Array.from({ length: contenders }, (_, at) => at + 1),
      );
      await on.store.addUsage(day, other, { turns: 5 }, expiresAt);
      expect(await on.store.getUsage(day, mine)).toEqual({
        day,
        userId: mine,
        counters: { turns: contenders, agentMs: 2 * contenders },
      });
      expect(await on.store.getUsage("2025-12-31", mine)).toBeUndefined();
      expect((await on.store.listUsage(day)).map(({ userId }) => userId).sort()).toEqual(
        [mine, other].sort(),
      );
    });
  });

  describe("the success metrics", () => {
    const sumOf = (hours: { hour: string; counters: Readonly<Record<string, number>> }[], name: string) =>
      hours.reduce((sum, { counters }) => sum + (counters[name] ?? 0), 0);

    it("add up by hour under concurrency, over all users and beside a user's usage", async () => {
      const [mine, other] = [on.user(), on.user()];
      const day = `2026-02-${on.number()}`;
      const expiresAt = on.now() + 60_000;
      const at = (hour: string) => ({ hour, counters: { turn_ended: 1, stop_ms_b12: 2 } });
      await stampede(async (i) => {
        await on.store.addUsage(day, mine, { turns: 1 }, expiresAt, at(i % 2 ? "07" : "23"));
        await on.store.addMeasures(day, at("07"), `task ${i}`, expiresAt);
      });
      await on.store.addUsage(day, other, { turns: 1 }, expiresAt);
      const hours = await on.store.getMeasures(day, mine);
      expect(hours.map(({ hour }) => hour).sort()).toEqual(["07", "23"]);
      expect(sumOf(hours, "turn_ended")).toBe(contenders);
      expect(await on.store.getMeasures(day, other)).toEqual([]);
      expect((await on.store.getUsage(day, mine))?.counters).toEqual({ turns: contenders });
      const all = await on.store.listMeasures(day);
      expect(new Set(all.map(({ hour }) => hour))).toEqual(new Set(["07"]));
      expect([sumOf(all, "turn_ended"), sumOf(all, "stop_ms_b12")]).toEqual([contenders, 2 * contenders]);
      expect(await on.store.listMeasures("2025-12-31")).toEqual([]);
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

    it("is recorded once, becomes ready once, is claimed by one session, and is listed until then", async () => {
      const warm = aWarm();
      expect(trues(await stampede(() => on.store.createWarm(warm)))).toBe(1);
      expect(trues(await stampede(() => on.store.changeWarm(warm.name, "creating", ready(warm))))).toBe(1);
      const { name, createdAt, expiresAt } = warm;
      expect((await on.store.listWarm()).find((one) => one.name === name)?.state).toBe("ready");
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
      expect((await on.store.listWarm()).some((one) => one.name === name)).toBe(false);
    });

    it("is deleted once, and only in the state that was read", async () => {
      const warm = aWarm();
      await on.store.createWarm(warm);
      expect(await on.store.deleteWarm(warm.name, "ready")).toBe(false);
      expect(trues(await stampede(() => on.store.deleteWarm(warm.name, "creating")))).toBe(1);
      expect(await on.store.getWarm(warm.name)).toBeUndefined();
    });
  });

  describe("the flags", () => {
    it("are empty at first, then the ones last put", async () => {
      expect(await on.store.getFlags()).toEqual({});
      await on.store.putFlags({ ENABLE_HEALTH_PROBE: "10%" });
      expect(await on.store.getFlags()).toEqual({ ENABLE_HEALTH_PROBE: "10%" });
    });
  });

  describe("an idempotency key", () => {
    it("belongs to the first request until it expires", async () => {
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
