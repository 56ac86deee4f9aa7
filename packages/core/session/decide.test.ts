import { describe, expect, it } from "vitest";
import { leaseGraceMs } from "../limits.ts";
import { aTask } from "../testing.ts";
import { decideLease, reusableSandbox } from "./decide.ts";
import type { Session } from "./schema.ts";

const now = 1_000_000;
const want = { taskId: "task_new", turn: 1 };
const lease = { taskId: "task_old", turn: 2, at: now - 10 };
const session = (over: Partial<Session> = {}): Session => ({
  userId: "u",
  key: "k",
  epoch: 1,
  createdAt: 0,
  lastUsedAt: 0,
  expiresAt: now * 2,
  ...over,
});

describe("whether a turn may have the session", () => {
  const ended = { status: "succeeded", endedAt: 1, result: null } as const;
  const old = { ...lease, at: now - leaseGraceMs };

  it.each([
    ["there is no session", undefined, undefined, "free"],
    ["nobody ever had it", session(), undefined, "free"],
    ["it is ours already", session({ lease: { ...want, at: 1 } }), undefined, "mine"],
    ["its holder is at that turn", session({ lease }), aTask({ turn: 2 }), "busy"],
    ["its holder's turn has ended", session({ lease }), aTask({ turn: 2, state: ended }), "free"],
    ["its holder has gone on to a later turn", session({ lease }), aTask({ turn: 3 }), "free"],
    ["its holder is about to be written", session({ lease }), undefined, "busy"],
    ["its holder was never written", session({ lease: old }), undefined, "free"],
    ["its holder is about to be continued", session({ lease }), aTask({ turn: 1, state: ended }), "busy"],
    ["its holder was never continued", session({ lease: old }), aTask({ turn: 1, state: ended }), "free"],
    [
      "it is ours, but an earlier turn's",
      session({ lease: { ...want, turn: 2, at: now } }),
      undefined,
      "busy",
    ],
  ] as const)("when %s", (_what, given, holder, kind) => {
    expect(decideLease(given, holder, want, now).kind).toBe(kind);
  });

  it("is taken over exactly the lease that was seen", () => {
    expect(decideLease(session({ lease: old }), undefined, want, now)).toEqual({ kind: "free", over: old });
    expect(decideLease(undefined, undefined, want, now)).toEqual({ kind: "free", over: null });
  });
});

describe("a sandbox worth asking for", () => {
  const made = { name: "box", createdAt: 1 };
  const ready = { state: "ready", ...made, sessionId: "s", expiresAt: now + 1 } as const;

  it.each([
    ["none", undefined, false],
    ["one that is ready", ready, true],
    ["one that has expired", { ...ready, expiresAt: now }, false],
    ["one that a worker may have made before it died", { state: "creating", ...made } as const, true],
    ["one that is being given up", { state: "releasing", ...made } as const, false],
  ])("%s", (_what, sandbox, worth) => {
    expect(reusableSandbox(session(sandbox ? { sandbox } : {}), now) !== undefined).toBe(worth);
  });
});
