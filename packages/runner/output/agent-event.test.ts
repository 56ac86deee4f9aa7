import { describe, expect, test } from "vitest";
import { fitEvent, fitText, stripAnsi } from "./agent-event.ts";

const unmasked = (text: string) => text;

describe("stripping ANSI sequences", () => {
  test.each([
    ["colours", "\u001b[1;31mred\u001b[0m", "red"],
    ["cursor movements", "a\u001b[2K\u001b[1Gb", "ab"],
    ["titles and links", "\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b", "ab"],
    ["an unterminated sequence", "a\u001b]0;title", "a"],
    ["short sequences", "\u001b7a\u001b(Bb\u001bM", "ab"],
    ["control characters", "a\u0000\u0008\u007fb", "ab"],
    ["newlines and tabs, which stay", "a\r\n\tb", "a\r\n\tb"],
    ["other text, which stays", "é€🦊 [0m", "é€🦊 [0m"],
  ])("handles %s", (_, text, expected) => {
    expect(stripAnsi(text)).toBe(expected);
  });

  test("is fast on hostile input", () => {
    const startMs = performance.now();
    stripAnsi("\u001b[".repeat(500_000));
    stripAnsi(`\u001b]${"x".repeat(1_000_000)}`);
    stripAnsi("\u001b]".repeat(500_000));
    expect(performance.now() - startMs).toBeLessThan(2_000);
  });
});

describe("an event", () => {
  test("is cut to 8 KB of text or 2 KB of tool text, never inside a character", () => {
    for (const letter of ["x", "é", "€", "🦊"]) {
      const text = letter.repeat(10_000);
      const events = [
        fitEvent({ kind: "text", text }, unmasked),
        fitEvent({ kind: "result", ok: true, text }, unmasked),
        fitEvent({ kind: "tool_result", ok: true, text }, unmasked),
      ].map((event) => ("text" in event ? event.text : ""));
      expect(events.map((fitted) => Buffer.byteLength(fitted) <= 8192)).toEqual([true, true, true]);
      expect(Buffer.byteLength(events[2] ?? "")).toBeLessThanOrEqual(2048);
      for (const fitted of events) expect(fitted.slice(0, -1)).toBe(text.slice(0, fitted.length - 1));
    }
  });

  test("is unchanged if it fits", () => {
    const event = { kind: "tool_use", name: "Bash", input: "{}" } as const;
    expect(fitEvent(event, unmasked)).toEqual(event);
  });

  test("is stripped of ANSI sequences before it is masked, and masked before it is cut", () => {
    const mask = (text: string) => text.replaceAll("secret", "***");
    const text = `${"x".repeat(8185)}sec\u001b[0mret and more`;
    expect(fitEvent({ kind: "text", text }, mask)).toMatchObject({
      text: expect.stringMatching(/x\*\*\*…?/),
    });
  });
});

test("the text of an end has at most 4000 units and no split surrogate pair", () => {
  expect(fitText("short")).toBe("short");
  expect(fitText(`x${"🦊".repeat(3000)}`)).toBe(`x${"🦊".repeat(1999)}…`);
  expect(fitText("🦊".repeat(3000))).toBe(`${"🦊".repeat(1999)}…`);
});
