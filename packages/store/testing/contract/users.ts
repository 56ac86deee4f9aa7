import { createId, type Hold } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { contenders, type Fixture, stampede, trues, winners } from "./fixture.ts";

/** Limits, holds, counts, the audit log and deletion. */
export function userContract(on: Fixture): void {
  describe("a user's limits", () => {
    it("are undefined at first, then the ones last put", async () => {
      const user = on.user();
      expect(await on.store.getUserLimits(user)).toBeUndefined();
      await on.store.putUserLimits(user, { maxStreams: 3, maxCostUsd: null });
      expect(await on.store.getUserLimits(user)).toEqual({ maxStreams: 3, maxCostUsd: null });
    });
  });

  describe("a hold", () => {
    const hold = (value: string, ...groups: string[]): Hold => ({ value, groups });

    it("is never taken beyond the limit of any of its groups", async () => {
      const user = on.user();
      const taken = await stampede((i) =>
        on.store.changeHold(user, "turns", `t${i}`, undefined, hold("1", "all", i % 2 ? "odd" : "even"), {
          all: 7,
          odd: 5,
          even: 5,
        }),
      );
      expect(winners(taken)).toHaveLength(7);
      const { entries, counts } = await on.store.getHolds(user, "turns");
      expect(Object.keys(entries)).toHaveLength(7);
      expect(counts.all).toBe(7);
      expect(Math.max(counts.odd ?? 0, counts.even ?? 0)).toBeLessThanOrEqual(5);
      expect((counts.odd ?? 0) + (counts.even ?? 0)).toBe(7);
    });

    it("is dropped once, changes its groups once, and only as it was read", async () => {
      const user = on.user();
      const first = hold("1", "all", "queued");
      await on.store.changeHold(user, "turns", "a", undefined, first, { all: 1, queued: 1 });
      const lost = await on.store.changeHold(user, "turns", "a", undefined, first, { all: 9, queued: 9 });
      expect(lost).toEqual({ won: false, item: { entries: { a: first }, counts: { all: 1, queued: 1 } } });
      const started = hold("1", "all");
      const moves = await stampede(() => on.store.changeHold(user, "turns", "a", first, started, {}));
      expect(winners(moves)).toHaveLength(1);
      expect(await on.store.getHolds(user, "turns")).toEqual({
        entries: { a: started },
        counts: { all: 1, queued: 0 },
      });
      expect((await on.store.changeHold(user, "turns", "a", first, undefined, {})).won).toBe(false);
      const drops = await stampede(() => on.store.changeHold(user, "turns", "a", started, undefined, {}));
      expect(winners(drops)).toHaveLength(1);
      expect((await on.store.getHolds(user, "turns")).counts).toEqual({ all: 0, queued: 0 });
      expect((await on.store.getHolds(user, "streams")).entries).toEqual({});
    });

    it("is refused to the first taker if the limit is 0", async () => {
      const taken = await on.store.changeHold(on.user(), "streams", "s", undefined, hold("1", "all"), {
        all: 0,
      });
      expect(taken.won).toBe(false);
    });
  });

  describe("the requests of a user's minute", () => {
    it("add up under concurrency, by key and together", async () => {
      const user = on.user();
      const count = (i: number) =>
        on.store.countRequests(user, 5, `key_${i % 2}`, { user: 2, key: 1 }, on.now() + 60_000);
      const sums = await stampede(count);
      expect(Math.max(...sums.map((sum) => sum.user))).toBe(2 * contenders);
      expect(Math.max(...sums.map((sum) => sum.key))).toBe(contenders / 2);
    });
  });

  describe("the state of a webhook secret", () => {
    it("is replaced once per version", async () => {
      const user = on.user();
      expect(await on.store.getWebhookSecret(user)).toBeUndefined();
      const puts = await stampede((i) => on.store.putWebhookSecret(user, { version: 1, previousUntil: i }));
      expect(trues(puts)).toBe(1);
      expect(await on.store.putWebhookSecret(user, { version: 3, previousUntil: 0 })).toBe(false);
      expect(await on.store.putWebhookSecret(user, { version: 2, previousUntil: 9 })).toBe(true);
      expect(await on.store.getWebhookSecret(user)).toEqual({ version: 2, previousUntil: 9 });
    });
  });

  describe("the audit log", () => {
    const add = async (userId: string, action: "key.create" | "task.stop" = "task.stop") => {
      on.advance(1);
      const at = new Date(on.now()).toISOString();
      const entry = {
        id: createId("audit", on.now()),
        at,
        action,
        userId,
        keyId: "k",
        ip: "127.0.0.1",
        requestId: "r",
        target: "t",
        detail: { a: "b" },
      };
      await on.store.addAudit(entry, on.now() + 400 * day);
      return entry;
    };
    const day = 24 * 60 * 60_000;

    it("is listed newest first, over days, by user and by action", async () => {
      const [user, other] = [on.user(), on.user()];
      const since = on.now();
      const oldest = await add(user, "key.create");
      on.advance(3 * day);
      await add(other);
      const middle = await add(user);
      on.advance(day);
      const newest = await add(user);
      const list = (options: object) => on.store.listAudit({ limit: 10, since, ...options });
      expect((await list({ userId: user })).items).toEqual([newest, middle, oldest]);
      expect((await list({ userId: user, action: "key.create" })).items).toEqual([oldest]);
      const first = await list({ userId: user, limit: 2 });
      expect(first).toEqual({ items: [newest, middle], next: middle.id });
      expect((await list({ userId: user, after: first.next })).items).toEqual([oldest]);
      expect((await list({ userId: user, since: Date.parse(middle.at) })).items).toEqual([newest, middle]);
    });

    it("reaches entries beyond many empty days with its cursors", async () => {
      const user = on.user();
      const since = on.now();
      const entry = await add(user);
      on.advance(100 * day);
      let after: string | undefined;
      let found: unknown[] = [];
      for (let pages = 0; pages < 10 && found.length === 0; pages++) {
        const page = await on.store.listAudit({ limit: 5, since, userId: user, ...(after && { after }) });
        found = page.items;
        after = page.next;
        if (!after) break;
      }
      expect(found).toEqual([entry]);
    });

    it("never overwrites an entry", async () => {
      const entry = await add(on.user());
      await expect(on.store.addAudit({ ...entry, target: "x" }, on.now() + 1)).rejects.toThrow("already");
    });
  });

  describe("deletion", () => {
    it("purges an expired task with everything that belongs to it, and no live one", async () => {
      const task = await on.saved({ startKey: "once", userId: on.user() });
      const scope = `${task.userId}#start#once`;
      const idempotency = { requestHash: "h", taskId: task.id, turn: 1, expiresAt: on.now() + 1e9 };
      await on.store.claimIdempotencyKey(scope, idempotency);
      await on.store.putPrompt(task.id, { turn: 1, key: "k" }, "p", on.now() + 1e9);
      const record = { kind: "output" as const, turn: 1, seq: 1, chunks: [] };
      await on.store.putRecord(task.id, record, on.now() + 1e9);
      await on.store.purgeTask(task.id);
      expect(await on.store.getTask(task.id)).toEqual(task);
      expect(await on.store.getPrompt(task.id, { turn: 1, key: "k" })).toBe("p");

      const guard = { turn: 1, status: ["queued"] } as const;
      await on.store.changeTask(task.id, guard, { set: { expiresAt: on.now(), dueAt: on.now() } });
      expect(await on.store.getTask(task.id)).toBeUndefined();
      expect((await on.store.listDueTasks(on.now(), 1000)).map(({ id }) => id)).toContain(task.id);
      await stampede(() => on.store.purgeTask(task.id));
      expect(await on.store.getPrompt(task.id, { turn: 1, key: "k" })).toBeUndefined();
      const { records } = await on.store.readRecords(task.id, { turn: 1, kind: "progress", seq: 0 }, 1);
      expect(records).toEqual([]);
      expect((await on.store.listDueTasks(on.now(), 1000)).map(({ id }) => id)).not.toContain(task.id);
      expect((await on.store.claimIdempotencyKey(scope, idempotency)).won).toBe(true);
    });

    it("purges a session only without a sandbox, and lists deleted ones too", async () => {
      const user = on.user();
      const set = { lastUsedAt: on.now(), expiresAt: on.now() + 1e9, deletedAt: on.now() };
      const sandbox = { state: "releasing", name: "box", createdAt: 1 } as const;
      await on.store.changeSession(user, "a", { lease: null }, { set });
      await on.store.changeSession(user, "b", { lease: null }, { set: { ...set, sandbox } });
      expect((await on.store.listSessionKeys(user)).sort()).toEqual(["a", "b"]);
      expect(await on.store.purgeSession(user, "a")).toBe(true);
      expect(await on.store.purgeSession(user, "b")).toBe(false);
      expect(await on.store.purgeSession(user, "missing")).toBe(true);
      expect(await on.store.listSessionKeys(user)).toEqual(["b"]);
    });

    it("purges a user's own items and no other user's", async () => {
      const [user, other] = [on.user(), on.user()];
      for (const one of [user, other]) {
        await on.store.putUserLimits(one, { maxStreams: 1 });
        await on.store.putWebhookSecret(one, { version: 1, previousUntil: 0 });
        const hold = { value: "1", groups: ["all"] };
        await on.store.changeHold(one, "streams", "s", undefined, hold, { all: 1 });
        await on.store.addUsage("2026-02-01", one, { turns: 1 }, on.now() + 1e9);
      }
      await on.store.purgeUser(user);
      await on.store.purgeUsage(user, ["2026-02-01", "2026-02-02"]);
      expect(await on.store.getUserLimits(user)).toBeUndefined();
      expect(await on.store.getWebhookSecret(user)).toBeUndefined();
      expect(await on.store.getHolds(user, "streams")).toEqual({ entries: {}, counts: {} });
      expect(await on.store.getUsage("2026-02-01", user)).toBeUndefined();
      expect(await on.store.getUserLimits(other)).toEqual({ maxStreams: 1 });
      expect((await on.store.getHolds(other, "streams")).counts).toEqual({ all: 1 });
      expect(await on.store.getUsage("2026-02-01", other)).toBeDefined();
    });

    it("of a user is marked once until it is done", async () => {
      const user = on.user();
      expect(await on.store.getDeletion(user)).toBeUndefined();
      await on.store.putDeletion({ userId: user, at: 5 });
      await on.store.putDeletion({ userId: user, at: 6 });
      expect(await on.store.getDeletion(user)).toEqual({ userId: user, at: 5 });
      expect(await on.store.listDeletions()).toContainEqual({ userId: user, at: 5 });
      await on.store.deleteDeletion(user);
      expect(await on.store.getDeletion(user)).toBeUndefined();
    });
  });
}
