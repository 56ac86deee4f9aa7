import { describe, expect, it } from "vitest";
import { countOf, decideCapacity, isOver, leftovers } from "./capacity.ts";
import type { Slot } from "./schema.ts";

const owner = { userId: "alice", sessionKey: "a" };
const caps = { poolMax: 3, poolMaxPerUser: 2 };
const of = (userId: string, sessionKey: string, name = `${userId}-${sessionKey}`, epoch = 1): Slot => ({
  name,
  at: 0,
  epoch,
  userId,
  sessionKey,
});
const warm = (name: string): Slot => ({ name, at: 0, pool: "warm" });

describe("decideCapacity", () => {
  it.each([
    ["an empty pool", [], "available"],
    ["one place left", [of("bob", "x"), of("carl", "y")], "available"],
    ["a full pool", [of("bob", "x"), of("bob", "y"), of("carl", "z")], "pool full"],
    ["a pool full of warm ones", [warm("1"), warm("2"), warm("3")], "pool full"],
    ["the user's share full", [of("alice", "x"), of("alice", "y")], "user full"],
    [
      "a full pool that the session is part of",
      [of("alice", "a"), of("bob", "x"), of("bob", "y")],
      "available",
    ],
    ["two slots of one session", [of("bob", "x", "old"), of("bob", "x", "new"), warm("1")], "available"],
  ] as const)("with %s", (_what, slots, verdict) => {
    expect(decideCapacity(slots, owner, caps)).toBe(verdict);
  });

  it("counts a warm sandbox for the pool, but not for its user", () => {
    const full = [warm("1"), warm("2"), warm("3")];
    expect(decideCapacity(full, owner, caps, true)).toBe("available");
    expect(decideCapacity([...full, of("alice", "x"), of("alice", "y")], owner, caps, true)).toBe(
      "user full",
    );
  });
});

describe("isOver: a slot that was just written", () => {
  const mine = of("alice", "a");
  it.each([
    ["the last one there may be", [mine, of("bob", "x"), of("bob", "y")], false],
    ["one too many", [mine, of("bob", "x"), of("bob", "y"), of("carl", "z")], true],
    ["one too many for its user", [mine, of("alice", "x"), of("alice", "y")], true],
    ["a second one of its session", [mine, of("alice", "a", "old"), of("bob", "x"), of("bob", "y")], false],
  ] as const)("is %s", (_what, slots, over) => {
    expect(isOver(slots, owner, caps)).toBe(over);
  });
});

it("counts a session once, and an unowned sandbox by its name", () => {
  expect(countOf([of("alice", "a", "1"), of("alice", "a", "2"), warm("3"), warm("4"), of("bob", "a")])).toBe(
    4,
  );
});

it("leftovers are slots of older epochs and losers of this one, not newer ones", () => {
  const old = [of("alice", "a", "old", 4), of("alice", "a", "lost", 5)];
  const slots = [...old, of("alice", "a", "newer", 6), of("alice", "b", "other", 1)];
  expect(leftovers(slots, owner, "mine", 5).map(({ name }) => name)).toEqual(["old", "lost"]);
});
