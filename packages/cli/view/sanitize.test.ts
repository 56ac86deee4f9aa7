import { describe, expect, it } from "vitest";
import { createSanitizer, printable } from "./sanitize.ts";

describe("an agent's output on a terminal", () => {
  it.each([
    ["colours pass", "\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"],
    ["line breaks and tabs pass", "a\tb\r\nc", "a\tb\r\nc"],
    ["moving the cursor is removed", "a\x1b[2J\x1b[H\x1b[1Ab", "ab"],
    ["the title is removed", "a\x1b]0;title\x07b", "ab"],
    ["the clipboard is removed", "a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"],
    ["questions to the terminal are removed", "a\x1b[6n\x1bP$q\x1b\\\x1b[cb", "ab"],
    ["control characters are removed", "a\x00\x07\x08\x9bb", "ab"],
    ["other letters pass", "Grüße 你好 🎉", "Grüße 你好 🎉"],
  ])("%s, in one piece and in pieces of one", (_, text, wanted) => {
    expect(createSanitizer()(text)).toBe(wanted);
    const clean = createSanitizer();
    expect(Array.from(text, (piece) => clean(piece)).join("")).toBe(wanted);
  });

  it("does not hold back a sequence without end forever", () => {
    const clean = createSanitizer();
    clean(`\x1b]0;${"x".repeat(5_000)}`);
    expect(clean("shown")).toBe("shown");
  });
});

it("a table's cell is one line", () => {
  expect(printable("a\nb\r\n\tc  d\x1b[2J")).toBe("a b c  d");
});
