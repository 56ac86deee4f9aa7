import { describe, expect, it } from "vitest";
import { leaseGraceMs } from "../limits.ts";
import { aTask } from "../testing/task.ts";
import { decideLease, decideLife, decideSandbox } from "./decide.ts";
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

describe("decideLease", () => {
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

  it("takes over exactly the lease that was read", () => {
    expect(decideLease(session({ lease: old }), undefined, want, now)).toEqual({ kind: "free", over: old });
    expect(decideLease(undefined, undefined, want, now)).toEqual({ kind: "free", over: null });
  });
});

describe("decideSandbox", () => {
  const made = { name: "box", createdAt: 1 };
  const ready = {
    state: "ready",
    ...made,
    sessionId: "s",
    origin: "cold",
    startedAt: now - 10,
    expiresAt: now + 1,
    extendedAt: now - 10,
  } as const;
  const creating = { state: "creating", ...made, by: "another", until: now + 1000 } as const;

  it.each([
    ["is made where there is none", undefined, "create"],
    ["is probed where there is one", ready, "probe"],
    ["is probed where its time is over: it may be resumed", { ...ready, expiresAt: now }, "probe"],
    [
      "is waited for while another extends or moves it",
      { ...ready, busy: { by: "x", until: now + 1 } },
      "wait",
    ],
    ["is probed when its process has taken too long", { ...ready, busy: { by: "x", until: now } }, "probe"],
    ["is waited for while another makes it", creating, "wait"],
    ["is looked for when its maker has taken too long", { ...creating, until: now }, "adopt"],
    ["is looked for at once by who began to make it", { ...creating, by: "me" }, "adopt"],
    ["is made anew while the one before is given up", { state: "releasing", ...made } as const, "create"],
  ] as const)("%s", (_what, sandbox, kind) => {
    expect(decideSandbox(session(sandbox ? { sandbox } : {}), "me", now).kind).toBe(kind);
  });
});

describe("decideLife", () => {
  const idleMs = 30 * 60_000;
  const maxMs = 300 * 60_000;
  const at = (startedAgoMs: number, leftMs: number, extendedAgoMs: number) => ({
    startedAt: now - startedAgoMs,
    expiresAt: now + leftMs,
    extendedAt: now - extendedAgoMs,
  });
  const hour = 60 * 60_000;

  it.each([
    ["is long enough", at(1000, idleMs, 1000), 60_000, { kind: "lasts" }],
    [
      "is pushed out by what it lost",
      at(hour, idleMs - 90_000, 90_000),
      60_000,
      { kind: "extend", byMs: 90_000 },
    ],
    ["is pushed out once a minute at the most", at(hour, idleMs - 30_000, 30_000), 60_000, { kind: "lasts" }],
    [
      "is pushed out at once where a turn needs it",
      at(hour, 50_000, 10),
      60_000,
      { kind: "extend", byMs: idleMs - 50_000 },
    ],
    [
      "is never pushed past the plan's end",
      at(maxMs - hour / 4, 60_000, hour),
      60_000,
      { kind: "extend", byMs: hour / 4 - 60_000 },
    ],
    ["is over before the turn is: it moves", at(maxMs - hour, 60_000, hour), 2 * hour, { kind: "move" }],
    [
      "is the longest there is, for a turn that is longer",
      at(1000, maxMs - 1000, 1000),
      2 * maxMs,
      { kind: "lasts" },
    ],
  ] as const)("%s", (_what, life, untilMs, verdict) => {
    expect(decideLife(life, { until: now + untilMs, idleMs, maxMs }, now)).toEqual(verdict);
  });
});
