import { describe, expect, it } from "vitest";
import { createId, sandboxName, sessionId, taskIdPattern } from "./ids.ts";

describe("ids", () => {
  it("sort by time and are never the same", () => {
    const times = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001, 2 ** 45];
    const ids = times.map((now) => createId("task", now));
    expect([...ids].sort()).toEqual(ids);
    expect(new Set(Array.from({ length: 1000 }, () => createId("task", 7))).size).toBe(1000);
    for (const id of ids) expect(id).toMatch(taskIdPattern);
  });

  it("of a session are stable, and differ between users", () => {
    expect(sessionId("alice", "a")).toBe(sessionId("alice", "a"));
    expect(sessionId("alice", "a")).not.toBe(sessionId("alicea", ""));
    expect(sandboxName("concierge", "dev", sessionId("alice", "a"), 7)).toMatch(
      /^concierge-dev-[0-9a-f]{20}-7$/,
    );
  });
});
