import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createMasker, maskText } from "./mask.ts";

const secret = "s3cr3t-value-42";

function pushAll(secrets: string[], ...parts: string[]): string[] {
  const masker = createMasker(secrets);
  return [...parts.map((part) => masker.push(Buffer.from(part)).toString()), masker.end().toString()];
}

describe("a masker", () => {
  test.each([
    ["a secret alone", [secret], secret, "***"],
    ["a secret in a line", [secret], `key=${secret};\n`, "key=***;\n"],
    ["two in a row", [secret], secret + secret, "******"],
    ["no secret", [secret], "nothing to see", "nothing to see"],
    ["the beginning of a secret at the end", [secret], "s3cr3t-", "s3cr3t-"],
    ["a value too short to be a secret", ["short"], "short", "short"],
    [
      "the longer of two with the same beginning",
      ["secret", "secretsauce"],
      "a secretsauce b secret",
      "a *** b ***",
    ],
    ["the outer of two nested secrets", ["sauce1", "secretsauce1"], "secretsauce1 sauce1", "*** ***"],
    ["the first of two overlapping secrets", ["abcdef", "defghi"], "abcdefghi", "***ghi"],
    ["a secret that is not ASCII", ["clé-🔑-é"], "x clé-🔑-é y", "x *** y"],
    ["a false start before the secret", ["aaaaab"], "aaaaaaab", "aa***"],
    ["no secrets at all", [], "plain", "plain"],
  ])("replaces %s", (_, secrets, text, expected) => {
    expect(maskText(secrets, text)).toBe(expected);
  });

  test("finds a secret at any cut of the stream", () => {
    const text = `before ${secret} after`;
    for (let cut = 0; cut <= text.length; cut++) {
      expect(pushAll([secret], text.slice(0, cut), text.slice(cut)).join("")).toBe("before *** after");
    }
  });

  test("finds a secret that arrives byte by byte", () => {
    expect(pushAll([secret, "s3cr3t"], ...`x${secret}y`).join("")).toBe("x***y");
  });

  test("holds back only bytes that may begin a secret", () => {
    expect(pushAll([secret], "hello s3c", "ond\n")).toEqual(["hello ", "s3cond\n", ""]);
  });

  test("releases a short beginning when the batch is due, and still masks the rest", () => {
    const masker = createMasker([secret]);
    expect(masker.push(Buffer.from("x s3c")).toString()).toBe("x ");
    expect(masker.release().toString()).toBe("s3c");
    expect(masker.release().toString()).toBe("");
    expect(masker.push(Buffer.from("r3t-value-42 y")).toString()).toBe("*** y");
  });

  test("shows a released beginning only once if no secret follows", () => {
    const masker = createMasker([secret]);
    masker.push(Buffer.from("s3c"));
    masker.release();
    expect(masker.push(Buffer.from("ond")).toString()).toBe("ond");
    expect(masker.end().toString()).toBe("");
  });

  test("shows each byte once if a released beginning continues but is not a secret", () => {
    const masker = createMasker([secret]);
    masker.push(Buffer.from("s3c"));
    masker.release();
    expect(masker.push(Buffer.from("r3t-")).toString()).toBe("");
    expect(masker.push(Buffer.from("nothing")).toString()).toBe("r3t-nothing");
  });

  test("never releases six bytes of a secret", () => {
    const masker = createMasker([secret]);
    masker.push(Buffer.from("s3cr3t"));
    expect(masker.release().toString()).toBe("");
    expect(masker.heldBytes()).toBe(6);
    expect(masker.push(Buffer.from("-value-42")).toString()).toBe("***");
  });

  test("passes binary data through unchanged", () => {
    const bytes = randomBytes(100_000);
    const masker = createMasker([secret, bytes.subarray(0, 1).toString("latin1").repeat(8)]);
    const out: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += 37) out.push(masker.push(bytes.subarray(at, at + 37)));
    out.push(masker.end());
    expect(Buffer.concat(out).equals(bytes)).toBe(true);
  });

  test("masks a secret that is added later, even if it contains another one", () => {
    const masker = createMasker(["s3cr3t"]);
    expect(masker.push(Buffer.from(`${secret} `)).toString()).toBe("***-value-42 ");
    masker.add(secret);
    masker.add("short");
    expect(masker.push(Buffer.from(`${secret} short `)).toString()).toBe("*** short ");
  });

  test("is fast on a chunk full of secrets", () => {
    const text = `${secret}\n`.repeat(20_000);
    const started = performance.now();
    expect(maskText([secret, "another-secret"], text)).toBe("***\n".repeat(20_000));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
