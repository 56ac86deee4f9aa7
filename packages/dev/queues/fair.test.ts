import { expect, test } from "vitest";
import { createFairBuffer } from "./fair.ts";

const message = (group: string, id = 0) => ({ group, id });
const groups = (items: { group: string }[]) => items.map(({ group }) => group).join("");

test("a late message of another group comes before a backlog", () => {
  const buffer = createFairBuffer();
  for (let i = 0; i < 100; i++) buffer.add(message("a", i));
  expect(groups(buffer.take(5))).toBe("aaaaa");
  buffer.add(message("b"));
  expect(groups(buffer.take(2))).toBe("ba");
  expect(buffer.size).toBe(94);
});

test("groups take turns, and a group keeps the order of its messages", () => {
  const buffer = createFairBuffer<{ group: string; id: number }>();
  for (const group of ["a", "b", "c"]) for (let i = 0; i < 3; i++) buffer.add(message(group, i));
  const taken = buffer.take(9);
  expect(groups(taken)).toBe("abcabcabc");
  for (const group of ["a", "b", "c"])
    expect(taken.filter((one) => one.group === group).map(({ id }) => id)).toEqual([0, 1, 2]);
  expect(buffer.take(1)).toEqual([]);
});

test("a group with many in flight waits until they are done", () => {
  const buffer = createFairBuffer();
  for (let i = 0; i < 4; i++) buffer.add(message("a"));
  const slow = buffer.take(3);
  buffer.add(message("b"));
  buffer.add(message("b"));
  expect(groups(buffer.take(2))).toBe("bb");
  buffer.done(slow);
  expect(groups(buffer.take(1))).toBe("a");
});
