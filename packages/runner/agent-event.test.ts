import { describe, expect, test } from "vitest";
import { clean, fitEvent, fitText } from "./agent-event.ts";

const as = (text: string) => text;

describe("what is meant for a terminal", () => {
  test.each([
    ["colours", "\u001b[1;31mred\u001b[0m", "red"],
    ["movements", "a\u001b[2K\u001b[1Gb", "ab"],
    ["titles and links", "\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b", "ab"],
    ["a sequence without its end", "a\u001b]0;title", "a"],
    ["short sequences", "\u001b7a\u001b(Bb\u001bM", "ab"],
    ["control characters", "a\u0000\u0008\u007fb", "ab"],
    ["not the ends of lines, nor tabs", "a\r\n\tb", "a\r\n\tb"],
    ["not other text", "é€🦊 [0m", "é€🦊 [0m"],
  ])("is taken out: %s", (_, text, expected) => {
    expect(clean(text)).toBe(expected);
  });

  test("does not take long to take out", () => {
    const startMs = performance.now();
    clean("\u001b[".repeat(500_000));
    clean(`\u001b]${"x".repeat(1_000_000)}`);
    clean("\u001b]".repeat(500_000));
    expect(performance.now() - startMs).toBeLessThan(2_000);
  });
});

describe("an event", () => {
  test("has texts of 8 KB at the most, of tools 2 KB, never cut in a character", () => {
    for (const letter of ["x", "é", "€", "🦊"]) {
      const text = letter.repeat(10_000);
      const events = [
        fitEvent({ kind: "text", text }, as),
        fitEvent({ kind: "result", ok: true, text }, as),
        fitEvent({ kind: "tool_result", ok: true, text }, as),
      ].map((event) => ("text" in event ? event.text : ""));
      expect(events.map((fitted) => Buffer.byteLength(fitted) <= 8192)).toEqual([true, true, true]);
      expect(Buffer.byteLength(events[2] ?? "")).toBeLessThanOrEqual(2048);
      for (const fitted of events) expect(fitted.slice(0, -1)).toBe(text.slice(0, fitted.length - 1));
    }
  });

  test("is as it was where it fits", () => {
    const event = { kind: "tool_use", name: "Bash", input: "{}" } as const;
    expect(fitEvent(event, as)).toEqual(event);
  });

  test("is masked before it is cut, and cleaned before it is masked", () => {
    const mask = (text: string) => text.replaceAll("secret", "***");
    const text = `${"x".repeat(8185)}sec\u001b[0mret and more`;
    expect(fitEvent({ kind: "text", text }, mask)).toMatchObject({
      text: expect.stringMatching(/x\*\*\*…?/),
    });
  });
});

test("the text of an end is 4000 units at the most, with no half of a pair", () => {
  expect(fitText("short")).toBe("short");
  expect(fitText(`x${"🦊".repeat(3000)}`)).toBe(`x${"🦊".repeat(1999)}…`);
  expect(fitText("🦊".repeat(3000))).toBe(`${"🦊".repeat(1999)}…`);
});
