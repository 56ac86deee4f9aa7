import { describe, expect, it } from "vitest";
import { createSealer } from "./seal.ts";

const sealer = createSealer("a secret");

describe("what is sealed", () => {
  it("opens for the purpose it was sealed for, and for no other", () => {
    const sealed = sealer.seal("hunter2 ✓", "task_1");
    expect(sealed).not.toContain("hunter2");
    expect(sealer.open(sealed, "task_1")).toBe("hunter2 ✓");
    expect(() => sealer.open(sealed, "task_2")).toThrow();
  });

  it("does not open with another secret, or after a changed bit", () => {
    const sealed = sealer.seal("hunter2", "task_1");
    expect(() => createSealer("another").open(sealed, "task_1")).toThrow();
    const bytes = Buffer.from(sealed, "base64");
    for (const at of [0, 12, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => sealer.open(changed.toString("base64"), "task_1")).toThrow();
    }
  });

  it("looks different each time", () => {
    expect(sealer.seal("x", "p")).not.toBe(sealer.seal("x", "p"));
  });
});

describe("a runner's token", () => {
  const claims = { taskId: "task_1", turn: 3, expiresAt: 1000 };
  const token = sealer.issueToken(claims);

  it("names its turn and its expiry", () => {
    expect(sealer.readToken(token)).toEqual(claims);
  });

  it.each([
    ["another turn", token.replace(".3.", ".4.")],
    ["a later end", token.replace(".1000.", ".9000.")],
    ["another task", token.replace("task_1", "task_2")],
    ["a cut signature", token.slice(0, -2)],
    ["no signature", "task_1.3.1000"],
    ["nothing", ""],
    ["another's", createSealer("another").issueToken(claims)],
  ])("is no token with %s", (_what, forged) => {
    expect(sealer.readToken(forged)).toBeUndefined();
  });
});

describe("a sealing key that is replaced", () => {
  const before = createSealer("old");
  const during = createSealer("new, old");
  const after = createSealer("new");
  const claims = { taskId: "task_1", turn: 3, expiresAt: 1000 };

  it("opens what the old key sealed, and seals with the new one", () => {
    expect(during.open(before.seal("hunter2", "p"), "p")).toBe("hunter2");
    const sealed = during.seal("hunter2", "p");
    expect(sealed).toMatch(/^k[0-9a-f]{8}:/);
    expect(during.open(sealed, "p")).toBe("hunter2");
    expect(after.open(sealed, "p")).toBe("hunter2");
    expect(() => before.open(sealed, "p")).toThrow("is missing");
    expect(() => during.open(sealed, "q")).toThrow();
  });

  it("writes what the previous version reads as long as there is one key", () => {
    expect(after.seal("x", "p")).not.toContain(":");
  });

  it("accepts tokens of both keys, and issues those of the new one", () => {
    expect(during.readToken(before.issueToken(claims))).toEqual(claims);
    expect(after.readToken(during.issueToken(claims))).toEqual(claims);
    expect(after.readToken(before.issueToken(claims))).toBeUndefined();
  });

  it("signs webhooks with both", () => {
    expect(during.webhookSecrets("bob")).toEqual([
      ...after.webhookSecrets("bob"),
      ...before.webhookSecrets("bob"),
    ]);
    expect(before.webhookSecrets("bob", 1)).not.toEqual(before.webhookSecrets("bob"));
  });

  it.each(["", "a,", ",a", " , "])("is refused if one is empty: %j", (secret) => {
    expect(() => createSealer(secret)).toThrow("empty");
  });
});
