import { createMemoryStore } from "@concierge/store";
import { expect, it } from "vitest";
import type { Deps } from "../deps.ts";
import { leaseGraceMs } from "../limits.ts";
import type { Task } from "../task/schema.ts";
import { aTask } from "../testing/task.ts";
import { takeLease } from "./lease.ts";

const where = { userId: "user", sessionKey: "default" };
const ended = { status: "succeeded", endedAt: 1, result: null } as const;
const running = { status: "running", commandId: "c" } as const;

/** A session with a sandbox, leased to a turn long ago, and the stored task. */
async function leased(turn: number, stored: Task) {
  let now = 1_000_000;
  const clock = { now: () => now, sleep: async () => {} };
  const store = createMemoryStore({ clock });
  const sandbox = {
    state: "ready",
    name: "s",
    sessionId: "s1",
    createdAt: now,
    origin: "cold",
    startedAt: now,
    expiresAt: now * 2,
    extendedAt: now,
  } as const;
  const lease = { taskId: stored.id, turn, at: now };
  await store.changeSession(
    "user",
    "default",
    { lease: null },
    { set: { lease, sandbox, lastUsedAt: now, expiresAt: now * 2 } },
  );
  await store.createTask(stored);
  now += leaseGraceMs;
  let reads = 0;
  const counting = {
    ...store,
    getTask: (id: string) => {
      reads += 1;
      return store.getTask(id);
    },
  };
  return { deps: { store: counting, clock } as unknown as Deps, store, reads: () => reads };
}

it.each([
  ["at another turn than the lease", aTask({ turn: 1, state: ended })],
  ["that had not ended", aTask({ turn: 3, state: running })],
])("a task read %s does not describe the holder; the stored one does", async (_how, known) => {
  const { deps, reads } = await leased(3, aTask({ turn: 3, state: running }));
  const want = { taskId: known.id, turn: 2, until: 0 };
  await expect(takeLease(deps, where, want, known)).rejects.toMatchObject({ code: "session_busy" });
  expect(reads()).toBe(1);
});

it("an ended task read at the leased turn is not read again", async () => {
  const known = aTask({ turn: 3, state: ended });
  const { deps, store, reads } = await leased(3, known);
  await takeLease(deps, where, { taskId: known.id, turn: 4, until: 0 }, known);
  expect((await store.getSession("user", "default"))?.lease).toMatchObject({ taskId: known.id, turn: 4 });
  expect(reads()).toBe(0);
});
