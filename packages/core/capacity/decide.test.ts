import { describe, expect, it } from "vitest";
import { longestCreateMs, warmLifeMs } from "../limits.ts";
import { claimable, decideRefill, isSpent } from "./decide.ts";
import type { UnclaimedWarmSandbox } from "./schema.ts";

const now = 1_000_000_000;
const ready = (name: string, lifeMs: number, createdAt = now): UnclaimedWarmSandbox => ({
  state: "ready",
  name,
  createdAt,
  expiresAt: now + lifeMs,
  sessionId: "s",
});
const creating = (ageMs: number): UnclaimedWarmSandbox => ({
  state: "creating",
  name: "c",
  createdAt: now - ageMs,
  expiresAt: now * 2,
});
const long = warmLifeMs + 1;

describe("the warm pool", () => {
  it("offers the oldest ready sandbox that lives long enough", () => {
    const warm = [ready("young", 500), ready("old", 500, now - 9), ready("short", 499), creating(0)];
    expect(claimable(warm, now + 500).map(({ name }) => name)).toEqual(["old", "young"]);
  });

  it.each([
    ["nothing there", [], { target: 2, room: 9, atMost: 9 }, 2],
    ["one ready", [ready("a", long)], { target: 2, room: 9, atMost: 9 }, 1],
    ["one being made", [creating(0)], { target: 2, room: 9, atMost: 9 }, 1],
    ["one never finished", [creating(longestCreateMs)], { target: 2, room: 9, atMost: 9 }, 2],
    ["one nearly over", [ready("a", warmLifeMs)], { target: 2, room: 9, atMost: 9 }, 2],
    ["too many", [ready("a", long), ready("b", long)], { target: 1, room: 9, atMost: 9 }, 0],
    ["little room", [], { target: 5, room: 1, atMost: 9 }, 1],
    ["no room", [], { target: 5, room: -3, atMost: 9 }, 0],
    ["a rate to keep", [], { target: 50, room: 99, atMost: 4 }, 4],
  ])("is refilled with %s", (_what, warm, limits, missing) => {
    expect(decideRefill(warm, limits, now)).toBe(missing);
  });

  it("drops sandboxes that no session can use any more", () => {
    expect(isSpent(creating(longestCreateMs), now)).toBe(true);
    expect(isSpent(creating(longestCreateMs - 1), now)).toBe(false);
    expect(isSpent(ready("a", warmLifeMs), now)).toBe(true);
    expect(isSpent(ready("a", long), now)).toBe(false);
  });
});
