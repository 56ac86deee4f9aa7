import { describe, expect, it } from "vitest";
import { cutTo } from "./bounds.ts";

describe("cutTo", () => {
  it.each([
    ["as long as it may be, stays", 5, "abcde", "abcde"],
    ["one longer, ends with the mark", 5, "abcdef", "ab…"],
    ["with a character where it is cut, loses all of it", 6, "aéééé", "aé…"],
    ["with one that is cut after two of its four bytes", 8, "abc😀😀", "abc…"],
    ["too short for the mark, is the mark", 2, "abc", "…"],
  ])("%s", (_what, maxBytes, text, cut) => {
    expect(cutTo(maxBytes, text)).toBe(cut);
  });

  it("stays within its bytes for any text and any cut", () => {
    const text = "a😀é…b".repeat(20);
    for (let max = 3; max < 200; max++) {
      const cut = cutTo(max, text);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(max);
      expect(cut).not.toContain("�");
    }
  });
});
