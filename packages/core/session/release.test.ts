import { createMemoryStore } from "@concierge/store";
import { expect, it } from "vitest";
import type { Task } from "../task/schema.ts";
import { forgetSandbox } from "./release.ts";

const now = 1_800_000_000_000;
const turn = { id: "task", turn: 1, userId: "alice", sessionKey: "default" } as Task;
const live = { name: "sandbox", startedAt: now, expiresAt: now + 1 };

/** A session whose turn has its sandbox in this provider session. */
async function sessionWith(sessionId: string) {
  const store = createMemoryStore({ clock: { now: () => now, sleep: async () => {} } });
  const lease = { taskId: turn.id, turn: turn.turn, at: now };
  const sandbox = {
    state: "ready",
    ...live,
    sessionId,
    createdAt: now,
    origin: "cold",
    extendedAt: now,
  } as const;
  const set = { lease, sandbox, epoch: 1, lastUsedAt: now, expiresAt: now + 1 };
  await store.changeSession("alice", "default", { lease: null }, { set });
  return store;
}

it.each([
  ["is forgotten where it is gone", "first", undefined],
  ["is kept where another worker has resumed it since", "second", "sandbox"],
])("a turn's sandbox %s", async (_what, sessionId, kept) => {
  const store = await sessionWith(sessionId);
  await forgetSandbox({ store }, turn, { sandbox: { ...live, sessionId: "first" } });
  expect((await store.getSession("alice", "default"))?.sandbox?.name).toBe(kept);
});
