import { expect, test } from "vitest";
import { createTail } from "./tail.ts";

function tailOf(...parts: string[]): string {
  const tail = createTail();
  for (const part of parts) tail.add(Buffer.from(part));
  return tail.text();
}

test.each([
  ["nothing", [], ""],
  ["short text, as it is", ["hello\n", "world"], "hello\nworld"],
  ["the last 4000 of long text", ["a".repeat(9_000), "b".repeat(3_999)], `a${"b".repeat(3_999)}`],
  ["characters of three bytes whole", ["€".repeat(5_000)], "€".repeat(4_000)],
  ["surrogate pairs whole", [`🦊${"a".repeat(3_999)}`], "a".repeat(3_999)],
  ["one huge piece", ["x".repeat(1_000_000)], "x".repeat(4_000)],
])("the tail keeps %s", (_, parts, expected) => {
  expect(tailOf(...parts)).toBe(expected);
});
