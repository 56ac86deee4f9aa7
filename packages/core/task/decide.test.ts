import { describe, expect, it } from "vitest";
import { aTask } from "../testing.ts";
import { decideClaim, decideEnd, decideRunnerAction, type RunnerEnd } from "./decide.ts";
import type { TaskState } from "./schema.ts";

const now = 1000;
const running: TaskState = { status: "running", commandId: "c" };
const provisioning = (until: number): TaskState => ({ status: "provisioning", claim: { id: "x", until } });
const ended: TaskState = { status: "succeeded", endedAt: 1, result: null };

describe("what a worker does with a message", () => {
  it.each([
    ["for a task that is not there", undefined, { kind: "nothing" }],
    ["for an older turn", aTask({ turn: 2 }), { kind: "nothing" }],
    ["for a queued turn", aTask(), { kind: "claim" }],
    ["for one that another holds", aTask({ state: provisioning(now + 9) }), { kind: "wait", ms: 10 }],
    ["for one whose claim runs out now", aTask({ state: provisioning(now) }), { kind: "wait", ms: 1 }],
    ["for one whose worker died", aTask({ state: provisioning(now - 1) }), { kind: "take over" }],
    ["for one that runs", aTask({ state: running }), { kind: "nothing" }],
    ["for one that has ended", aTask({ state: ended }), { kind: "nothing" }],
  ])("%s", (_what, task, verdict) => {
    expect(decideClaim(task, 1, now)).toEqual(verdict);
  });
});

describe("what a runner is told", () => {
  it.each([
    ["whose task is not there", undefined, "stop"],
    ["of another turn", aTask({ turn: 2, state: running }), "stop"],
    ["before it is on record", aTask({ state: provisioning(now) }), "wait"],
    ["while it runs", aTask({ state: running }), "continue"],
    ["after the end", aTask({ state: ended }), "stop"],
  ])("%s", (_what, task, action) => {
    expect(decideRunnerAction(task, 1)).toBe(action);
  });
});

describe("how a turn ends", () => {
  const end = (over: Partial<RunnerEnd>): RunnerEnd => ({
    lastSeq: 0,
    exitCode: null,
    signal: null,
    reason: "exited",
    outputCutBytes: 0,
    text: "t",
    ...over,
  });

  it.each([
    ["well", end({ exitCode: 0 }), "succeeded", undefined],
    ["with another code", end({ exitCode: 3 }), "failed", "agent_failed"],
    ["by a signal", end({ signal: "SIGSEGV" }), "failed", "agent_failed"],
    ["without an agent", end({ reason: "agent_missing" }), "failed", "agent_failed"],
    ["in silence", end({ reason: "inactivity" }), "failed", "inactivity_timeout"],
    ["past its deadline", end({ reason: "deadline" }), "timed_out", "deadline_exceeded"],
  ] as const)("%s", (_what, given, status, code) => {
    const state = decideEnd(given, now);
    expect(state).toMatchObject({
      status,
      endedAt: now,
      result: { text: "t", exitCode: given.exitCode, pushed: false },
    });
    expect("error" in state ? state.error.code : undefined).toBe(code);
  });
});
