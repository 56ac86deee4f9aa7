import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createMasker, maskText } from "./mask.ts";

const SECRET = "s3cr3t-value-42";

function pushAll(secrets: string[], ...parts: string[]): string[] {
  const masker = createMasker(secrets);
  return [...parts.map((part) => masker.push(Buffer.from(part)).toString()), masker.end().toString()];
}

describe("a masker", () => {
  test.each([
    ["a secret alone", [SECRET], SECRET, "***"],
    ["a secret in a line", [SECRET], `key=${SECRET};\n`, "key=***;\n"],
    ["two in a row", [SECRET], SECRET + SECRET, "******"],
    ["no secret", [SECRET], "nothing to see", "nothing to see"],
    ["the beginning of a secret at the end", [SECRET], "s3cr3t-", "s3cr3t-"],
    ["a value too short to be a secret", ["short"], "short", "short"],
    [
      "the longer of two that begin alike",
      ["secret", "secretsauce"],
      "a secretsauce b secret",
      "a *** b ***",
    ],
    ["the outer of two that are nested", ["sauce1", "secretsauce1"], "secretsauce1 sauce1", "*** ***"],
    ["the first of two that overlap", ["abcdef", "defghi"], "abcdefghi", "***ghi"],
    ["a secret that is not ASCII", ["clé-🔑-é"], "x clé-🔑-é y", "x *** y"],
    ["a false start before the secret", ["aaaaab"], "aaaaaaab", "aa***"],
    ["no secrets at all", [], "plain", "plain"],
  ])("replaces %s", (_, secrets, text, expected) => {
    expect(maskText(secrets, text)).toBe(expected);
  });

  test("finds a secret at whichever byte the stream is cut", () => {
    const text = `before ${SECRET} after`;
    for (let cut = 0; cut <= text.length; cut++) {
      expect(pushAll([SECRET], text.slice(0, cut), text.slice(cut)).join("")).toBe("before *** after");
    }
  });

  test("finds a secret that arrives byte by byte", () => {
    expect(pushAll([SECRET, "s3cr3t"], ...`x${SECRET}y`).join("")).toBe("x***y");
  });

  test("holds back only what may be the beginning of a secret", () => {
    expect(pushAll([SECRET], "hello s3c", "ond\n")).toEqual(["hello ", "s3cond\n", ""]);
  });

  test("lets a short beginning go when the batch is due, and still masks the rest", () => {
    const masker = createMasker([SECRET]);
    expect(masker.push(Buffer.from("x s3c")).toString()).toBe("x ");
    expect(masker.release().toString()).toBe("s3c");
    expect(masker.release().toString()).toBe("");
    expect(masker.push(Buffer.from("r3t-value-42 y")).toString()).toBe("*** y");
  });

  test("shows a released beginning once when no secret follows", () => {
    const masker = createMasker([SECRET]);
    masker.push(Buffer.from("s3c"));
    masker.release();
    expect(masker.push(Buffer.from("ond")).toString()).toBe("ond");
    expect(masker.end().toString()).toBe("");
  });

  test("shows each byte once when a beginning is released, goes on, and then is no secret", () => {
    const masker = createMasker([SECRET]);
    masker.push(Buffer.from("s3c"));
    masker.release();
    expect(masker.push(Buffer.from("r3t-")).toString()).toBe("");
    expect(masker.push(Buffer.from("nothing")).toString()).toBe("r3t-nothing");
  });

  test("never lets six bytes of a secret go because time has passed", () => {
    const masker = createMasker([SECRET]);
    masker.push(Buffer.from("s3cr3t"));
    expect(masker.release().toString()).toBe("");
    expect(masker.heldBytes()).toBe(6);
    expect(masker.push(Buffer.from("-value-42")).toString()).toBe("***");
  });

  test("passes binary bytes through unchanged in pieces of any size", () => {
    const bytes = randomBytes(100_000);
    const masker = createMasker([SECRET, bytes.subarray(0, 1).toString("latin1").repeat(8)]);
    const out: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += 37) out.push(masker.push(bytes.subarray(at, at + 37)));
    out.push(masker.end());
    expect(Buffer.concat(out).equals(bytes)).toBe(true);
  });

  test("takes a secret that becomes known later, also over one that it contains", () => {
    const masker = createMasker(["s3cr3t"]);
    expect(masker.push(Buffer.from(`${SECRET} `)).toString()).toBe("***-value-42 ");
    masker.add(SECRET);
    masker.add("short");
    expect(masker.push(Buffer.from(`${SECRET} short `)).toString()).toBe("*** short ");
  });

  test("stays fast when a chunk is full of secrets", () => {
    const text = `${SECRET}\n`.repeat(20_000);
    const started = performance.now();
    expect(maskText([SECRET, "another-secret"], text)).toBe("***\n".repeat(20_000));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
