import { describe, expect, it } from "vitest";
import { findRef } from "./advertisement.ts";

const line = (text: string) => (text.length + 4).toString(16).padStart(4, "0") + text;
const commit = (digit: string) => digit.repeat(40);
const answer = Buffer.from(
  `${line("# service=git-upload-pack\n")}0000${line(`${commit("a")} HEAD\0multi_ack symref=HEAD:refs/heads/main\n`)}${line(`${commit("a")} refs/heads/main\n`)}${line(`${commit("b")} refs/heads/main-2\n`)}0000`,
);

describe("a remote's refs", () => {
  it("are found by their whole name", () => {
    expect(findRef(answer, "refs/heads/main")).toBe(commit("a"));
    expect(findRef(answer, "refs/heads/main-2")).toBe(commit("b"));
    expect(findRef(answer, "refs/heads/mai")).toBeUndefined();
    expect(findRef(answer, "HEAD")).toBe(commit("a"));
  });

  it("of an empty repository are none", () => {
    const empty = Buffer.from(
      `${line("# service=git-upload-pack\n")}0000${line(`${commit("0")} capabilities^{}\0agent=git\n`)}0000`,
    );
    expect(findRef(empty, "refs/heads/main")).toBeUndefined();
  });

  it("are not read out of something else", () => {
    expect(() => findRef(Buffer.from("<html>"), "refs/heads/main")).toThrow();
  });

  it("are unknown where the answer was cut off, and a name that was cut is not taken for a whole one", () => {
    const cut = (end: string) => answer.subarray(0, answer.indexOf(end));
    expect(() => findRef(cut("-2\n"), "refs/heads/main-2")).toThrow("cut off");
    expect(() => findRef(Buffer.from(`${line("# service\n")}0000${line("").slice(0, 2)}`), "x")).toThrow();
    const alone = Buffer.from(`${line(`${commit("b")} refs/heads/main-2\n`)}`);
    expect(() => findRef(alone.subarray(0, alone.indexOf("-2")), "refs/heads/main")).toThrow("cut off");
    expect(findRef(cut("-2\n"), "refs/heads/main")).toBe(commit("a"));
  });
});
