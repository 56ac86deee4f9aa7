import { expect, test } from "vitest";
import { createTail } from "./tail.ts";

function tailOf(...parts: string[]): string {
  const tail = createTail();
  for (const part of parts) tail.add(Buffer.from(part));
  return tail.text();
}

test.each([
  ["nothing", [], ""],
  ["short text unchanged", ["hello\n", "world"], "hello\nworld"],
  ["the last 4000 units of long text", ["a".repeat(9_000), "b".repeat(3_999)], `a${"b".repeat(3_999)}`],
  ["three-byte characters intact", ["€".repeat(5_000)], "€".repeat(4_000)],
  ["surrogate pairs intact", [`🦊${"a".repeat(3_999)}`], "a".repeat(3_999)],
  ["the end of one huge piece", ["x".repeat(1_000_000)], "x".repeat(4_000)],
])("the tail keeps %s", (_, parts, expected) => {
  expect(tailOf(...parts)).toBe(expected);
});
