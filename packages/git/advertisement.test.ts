import { describe, expect, it } from "vitest";
import { findRef } from "./advertisement.ts";

const line = (text: string) => (text.length + 4).toString(16).padStart(4, "0") + text;
const commit = (digit: string) => digit.repeat(40);
const answer = Buffer.from(
  `${line("# service=git-upload-pack\n")}0000${line(`${commit("a")} HEAD\0multi_ack symref=HEAD:refs/heads/main\n`)}${line(`${commit("a")} refs/heads/main\n`)}${line(`${commit("b")} refs/heads/main-2\n`)}0000`,
);

describe("findRef", () => {
  it("matches the complete name of a ref", () => {
    expect(findRef(answer, "refs/heads/main")).toBe(commit("a"));
    expect(findRef(answer, "refs/heads/main-2")).toBe(commit("b"));
    expect(findRef(answer, "refs/heads/mai")).toBeUndefined();
    expect(findRef(answer, "HEAD")).toBe(commit("a"));
  });

  it("finds nothing in an empty repository", () => {
    const empty = Buffer.from(
      `${line("# service=git-upload-pack\n")}0000${line(`${commit("0")} capabilities^{}\0agent=git\n`)}0000`,
    );
    expect(findRef(empty, "refs/heads/main")).toBeUndefined();
  });

  it("rejects text that is not an advertisement", () => {
    expect(() => findRef(Buffer.from("<html>"), "refs/heads/main")).toThrow();
  });

  it("rejects a truncated answer instead of reporting the ref as missing or matching a truncated name", () => {
    const cut = (end: string) => answer.subarray(0, answer.indexOf(end));
    expect(() => findRef(cut("-2\n"), "refs/heads/main-2")).toThrow("truncated");
    expect(() => findRef(Buffer.from(`${line("# service\n")}0000${line("").slice(0, 2)}`), "x")).toThrow();
    const alone = Buffer.from(`${line(`${commit("b")} refs/heads/main-2\n`)}`);
    expect(() => findRef(alone.subarray(0, alone.indexOf("-2")), "refs/heads/main")).toThrow("truncated");
    expect(findRef(cut("-2\n"), "refs/heads/main")).toBe(commit("a"));
  });
});
