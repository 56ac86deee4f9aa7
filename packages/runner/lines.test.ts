import { expect, test } from "vitest";
import { createLines } from "./lines.ts";

test("lines are whole, wherever the stream is cut", () => {
  const bytes = Buffer.from("é one\n\nthree\nlast");
  for (let size = 1; size <= bytes.length; size++) {
    const lines = createLines();
    const seen: string[] = [];
    for (let at = 0; at < bytes.length; at += size) seen.push(...lines.push(bytes.subarray(at, at + size)));
    seen.push(...lines.end());
    expect(seen).toEqual(["é one", "", "three", "last"]);
  }
});

test("a stream that ends with a line has no other after it", () => {
  const lines = createLines();
  expect([lines.push(Buffer.from("one\n")), lines.end()]).toEqual([["one"], []]);
});

test("a line that is too long is skipped, and not kept in memory, and the next is read", () => {
  const lines = createLines(10);
  const seen: string[] = [];
  for (let n = 0; n < 100; n++) seen.push(...lines.push(Buffer.from("xxxx")));
  seen.push(...lines.push(Buffer.from("\nshort\n0123456789\n01234567890\n")));
  expect(seen).toEqual(["short", "0123456789"]);
});

test("what was read is kept though its memory is used again", () => {
  const lines = createLines();
  const bytes = Buffer.from("abc");
  lines.push(bytes);
  bytes.fill("z");
  expect(lines.push(Buffer.from("d\n"))).toEqual(["abcd"]);
});
