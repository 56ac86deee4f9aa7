import { expect, test } from "vitest";
import { createLines } from "./lines.ts";

test("lines are complete at any cut of the stream", () => {
  const bytes = Buffer.from("é one\n\nthree\nlast");
  for (let size = 1; size <= bytes.length; size++) {
    const lines = createLines();
    const read: string[] = [];
    for (let at = 0; at < bytes.length; at += size) read.push(...lines.push(bytes.subarray(at, at + size)));
    read.push(...lines.end());
    expect(read).toEqual(["é one", "", "three", "last"]);
  }
});

test("a stream that ends with a newline has no empty last line", () => {
  const lines = createLines();
  expect([lines.push(Buffer.from("one\n")), lines.end()]).toEqual([["one"], []]);
});

test("a line that is too long is skipped, and the next one is read", () => {
  const lines = createLines(10);
  const read: string[] = [];
  for (let n = 0; n < 100; n++) read.push(...lines.push(Buffer.from("xxxx")));
  read.push(...lines.push(Buffer.from("\nshort\n0123456789\n01234567890\n")));
  expect(read).toEqual(["short", "0123456789"]);
});

test("a partial line survives the reuse of its buffer", () => {
  const lines = createLines();
  const bytes = Buffer.from("abc");
  lines.push(bytes);
  bytes.fill("z");
  expect(lines.push(Buffer.from("d\n"))).toEqual(["abcd"]);
});
