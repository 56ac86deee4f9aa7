import type { Task } from "@concierge/core";
import { describe, expect, it } from "vitest";
import type { Fixture } from "./fixture.ts";

/** Lists and due items, from the indexes. */
export function listContract(on: Fixture): void {
  describe("a list of tasks", () => {
    it("has one user's tasks, newest first, in pages without gaps or repeats", async () => {
      const userId = on.user();
      const mine: Task[] = [];
      for (let i = 0; i < 7; i++) {
        on.advance(1);
        mine.push(await on.saved({ userId }));
        await on.saved({ userId: on.user() });
      }
      const listed: string[] = [];
      let after: string | undefined;
      do {
        const page = await on.store.listTasks(userId, { limit: 3, ...(after && { after }) });
        expect(page.items.length).toBeLessThanOrEqual(3);
        listed.push(...page.items.map(({ id }) => id));
        after = page.next;
      } while (after);
      expect(listed).toEqual(mine.map(({ id }) => id).reverse());
    });

    it("has no cursor after a page that ends the list exactly", async () => {
      const userId = on.user();
      await on.saved({ userId });
      await on.saved({ userId });
      expect((await on.store.listTasks(userId, { limit: 2 })).next).toBeUndefined();
    });

    it("is filtered by status and session across pages", async () => {
      const userId = on.user();
      for (let i = 0; i < 12; i++) {
        on.advance(1);
        await on.saved({
          userId,
          sessionKey: i % 3 === 0 ? "third" : "rest",
          ...(i % 4 === 0 && { state: { status: "running", commandId: "c" } as const }),
        });
      }
      const running = await on.store.listTasks(userId, { limit: 2, status: "running" });
      expect(running.items).toHaveLength(2);
      expect(running.next).toBeDefined();
      const both = await on.store.listTasks(userId, { limit: 10, status: "running", sessionKey: "third" });
      expect(both.items).toHaveLength(1);
      expect(both.next).toBeUndefined();
    });
  });

  describe("due tasks", () => {
    it("are listed earliest first, without tasks that are not due", async () => {
      const base = 1000;
      const first = await on.saved({ dueAt: base + 1 });
      const second = await on.saved({ dueAt: base + 2 });
      const later = await on.saved({ dueAt: base + 3 });
      const done = await on.saved({ dueAt: base });
      await on.store.changeTask(done.id, { turn: 1, status: ["queued"] }, { remove: ["dueAt"] });
      const listed = (await on.store.listDueTasks(base + 2, 100)).map(({ id }) => id);
      expect(listed.filter((id) => [first.id, second.id, later.id, done.id].includes(id))).toEqual([
        first.id,
        second.id,
      ]);
      expect(await on.store.listDueTasks(base + 2, 1)).toHaveLength(1);
    });
  });
}
