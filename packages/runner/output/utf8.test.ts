import { expect, test } from "vitest";
import { incompleteTail } from "./utf8.ts";

test.each([
  ["nothing", [], 0],
  ["ASCII", [0x61], 0],
  ["a whole é", [0xc3, 0xa9], 0],
  ["half an é", [0x61, 0xc3], 1],
  ["one byte of €", [0xe2], 1],
  ["two bytes of €", [0xe2, 0x82], 2],
  ["a whole €", [0xe2, 0x82, 0xac], 0],
  ["one byte of 🦊", [0xf0], 1],
  ["two bytes of 🦊", [0xf0, 0x9f], 2],
  ["three bytes of 🦊", [0x61, 0xf0, 0x9f, 0xa6], 3],
  ["a whole 🦊", [0xf0, 0x9f, 0xa6, 0x8a], 0],
  ["a single continuation byte", [0xa9], 0],
  ["four continuation bytes", [0x80, 0x80, 0x80, 0x80], 0],
  ["an extra continuation byte", [0xc3, 0xa9, 0xa9], 0],
  ["an invalid lead byte", [0xc0], 0],
  ["a lead byte beyond Unicode", [0xf5], 0],
  ["an overlong three-byte form", [0xe0, 0x80], 0],
  ["a surrogate", [0xed, 0xa0], 0],
  ["an overlong four-byte form", [0xf0, 0x80, 0x80], 0],
  ["beyond U+10FFFF", [0xf4, 0x90], 0],
  ["the smallest three-byte character", [0xe0, 0xa0], 2],
  ["the last character before the surrogates", [0xed, 0x9f], 2],
])("finds the incomplete character at the end of %s", (_, bytes, expected) => {
  expect(incompleteTail(Uint8Array.from(bytes))).toBe(expected);
});
