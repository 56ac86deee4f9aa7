import { expect, it } from "vitest";
import { interleave } from "./fair.ts";

const of = (...names: string[]) => names.map((name) => ({ userId: name.charAt(0), name }));
const namesOf = (items: readonly { name: string }[]) => items.map(({ name }) => name).join(" ");

it.each([
  ["nothing", [], 5, ""],
  ["one user's in their order", of("a1", "a2", "a3"), 5, "a1 a2 a3"],
  [
    "each user's first before anybody's second",
    of("a1", "a2", "a3", "b1", "c1", "c2"),
    9,
    "a1 b1 c1 a2 c2 a3",
  ],
  ["as many as there may be, of all users", of("a1", "a2", "a3", "a4", "b1", "b2"), 4, "a1 b1 a2 b2"],
  ["the longest due of each user where there is not room for one of each", of("b1", "a1", "c1"), 2, "b1 a1"],
])("takes %s", (_what, items, limit, taken) => {
  expect(namesOf(interleave(items, limit))).toBe(taken);
});

it("a user's backlog does not delay another user's single item", () => {
  const backlog = Array.from({ length: 1000 }, (_, i) => ({ userId: "a", name: `a${i}` }));
  expect(namesOf(interleave([...backlog, ...of("b1")], 200))).toContain("b1");
});
