import { describe, expect, it } from "vitest";
import type { RunnerState } from "../ports.ts";
import { aTask } from "../testing/task.ts";
import {
  causes,
  decideClaim,
  decideDue,
  decideEnd,
  decidePushed,
  decideRunnerAction,
  decideSilence,
  decideTimer,
  isNewSign,
  isPushGivenUp,
  type RunnerEnd,
  reapAgain,
  signOfLife,
  terminateBackoffMs,
} from "./decide.ts";
import type { Task, TaskState } from "./schema.ts";

const now = 1000;
const running: TaskState = { status: "running", commandId: "c" };
const provisioning = (until: number): TaskState => ({ status: "provisioning", claim: { id: "x", until } });
const stopping: TaskState = { status: "stopping", ...causes.stopped, attempts: 0 };
const push = { commit: "c0ffee", branch: "b", exitCode: 0, text: "t" };
const finalizing = (finalizeBy: number): TaskState => ({ status: "finalizing", push, finalizeBy });
const ended: TaskState = { status: "succeeded", endedAt: 1, result: null };

describe("decideClaim", () => {
  it.each([
    ["for a task that is not there", undefined, { kind: "nothing" }],
    ["for an older turn", aTask({ turn: 2 }), { kind: "nothing" }],
    ["for one that another holds", aTask({ state: provisioning(now + 9) }), { kind: "wait", ms: 10 }],
    ["for one whose claim runs out now", aTask({ state: provisioning(now) }), { kind: "wait", ms: 1 }],
    [
      "for one whose worker died",
      aTask({ state: provisioning(now - 1) }),
      { kind: "take over", isRetry: false },
    ],
    [
      "for one that its own write claimed, though the answer was lost",
      aTask({ state: { status: "provisioning", claim: { id: "mine", until: now + 9 } } }),
      { kind: "mine" },
    ],
    ["for one that runs", aTask({ state: running }), { kind: "nothing" }],
    ["for one that has ended", aTask({ state: ended }), { kind: "nothing" }],
  ])("%s", (_what, task, verdict) => {
    expect(decideClaim(task, 1, "mine", now)).toEqual(verdict);
  });
});

describe("decideRunnerAction", () => {
  it.each([
    ["whose task is not there", undefined, "stop"],
    ["of another turn", aTask({ turn: 2, state: running }), "stop"],
    ["before it is on record", aTask({ state: provisioning(now) }), "wait"],
    ["while it runs", aTask({ state: running }), "continue"],
    ["while its push is granted", aTask({ state: finalizing(now) }), "continue"],
    ["while it is being stopped", aTask({ state: stopping }), "stop"],
    ["after the end", aTask({ state: ended }), "stop"],
  ])("%s", (_what, task, action) => {
    expect(decideRunnerAction(task, 1)).toBe(action);
  });
});

describe("decideEnd", () => {
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
    ["without a clone", end({ reason: "clone_failed" }), "failed", "provision_failed"],
  ] as const)("%s", (_what, given, status, code) => {
    const state = decideEnd(given, now);
    expect(state).toMatchObject({ status, endedAt: now });
    expect("error" in state ? state.error.code : undefined).toBe(code);
  });

  it("includes the agent's text and commit", () => {
    const given = end({ exitCode: 0, commit: "c0ffee", branch: "b" });
    const result = { exitCode: 0, text: "t", commit: "c0ffee", branch: "b", pushed: false };
    expect(decideEnd(given, now)).toEqual({ status: "succeeded", endedAt: now, result });
  });

  it.each([
    ["inactivity", causes.inactivity],
    ["deadline", causes.deadline],
  ] as const)("requires proof for %s", (reason, cause) => {
    expect(decideEnd(end({ reason }), now)).toEqual(cause);
  });
});

describe("decideTimer", () => {
  const limits = { maxDurationMs: 500, inactivityMs: 100 };
  const task = (state: TaskState, over: Partial<Task> = {}) =>
    aTask({ state, limits, deadlineAt: now + 50, lastActivityAt: now - 30, ...over });
  const late = { deadlineAt: now };
  const silent = { lastActivityAt: now - 100 };
  const end = { kind: "end" } as const;

  it.each([
    ["deadline", "before it", task(running), { kind: "again", inMs: 50 }],
    ["deadline", "at it", task(running, late), end],
    ["deadline", "at it, still queued", task({ status: "queued" }, late), end],
    ["deadline", "at it, still provisioning", task(provisioning(now), late), end],
    ["deadline", "at it, while the push is granted", task(finalizing(now), late), { kind: "nothing" }],
    ["deadline", "at it, while it is being stopped", task(stopping, late), { kind: "nothing" }],
    ["deadline", "after the end", task(ended, late), { kind: "nothing" }],
    ["deadline", "for an older turn", task(running, { ...late, turn: 2 }), { kind: "nothing" }],
    ["inactivity", "while it speaks", task(running), { kind: "again", inMs: 70 }],
    ["inactivity", "when it is silent", task(running, silent), { kind: "ask" }],
    ["inactivity", "before it runs", task(provisioning(now), silent), { kind: "again", inMs: 100 }],
    ["inactivity", "while it is being stopped", task(stopping, silent), { kind: "nothing" }],
    ["terminate", "while it is being stopped", task(stopping), { kind: "terminate" }],
    ["terminate", "while it runs", task(running), { kind: "nothing" }],
    ["terminate", "after the end", task(ended), { kind: "nothing" }],
    ["finalize", "before its time", task(finalizing(now + 5)), { kind: "again", inMs: 5 }],
    ["finalize", "at its time", task(finalizing(now)), { kind: "settle" }],
    ["finalize", "after the end", task(ended), { kind: "nothing" }],
  ] as const)("%s, %s", (kind, _what, given, action) => {
    expect(decideTimer(given, { kind, taskId: given.id, turn: 1 }, now)).toEqual(action);
  });

  it("does nothing for a missing task", () => {
    expect(decideTimer(undefined, { kind: "deadline", taskId: "t", turn: 1 }, now)).toEqual({
      kind: "nothing",
    });
  });

  it.each([
    ["queued, its message lost", task({ status: "queued" }), { kind: "provision" }],
    ["queued past its deadline", task({ status: "queued" }, late), end],
    ["claimed", task(provisioning(now + 9)), { kind: "again", inMs: 9 }],
    ["claimed by one that died", task(provisioning(now)), { kind: "provision" }],
    ["provisioning past its deadline", task(provisioning(now + 9), late), end],
    ["running", task(running), { kind: "again", inMs: 70 }],
    ["running and silent", task(running, silent), { kind: "ask" }],
    ["running past its deadline", task(running, late), end],
    ["finalizing", task(finalizing(now + 5)), { kind: "again", inMs: 5 }],
    ["finalizing past its time", task(finalizing(now)), { kind: "settle" }],
    ["stopping", task(stopping), { kind: "terminate" }],
    ["ended, and not followed up", task(ended), { kind: "follow up" }],
  ] as const)("the reaper decides the same: %s", (_what, given, action) => {
    expect(decideDue(given, now)).toEqual(action);
  });

  const state = (over: Partial<RunnerState>): RunnerState => ({
    at: undefined,
    lastOutputAt: undefined,
    undelivered: false,
    activity: "none",
    ...over,
  });

  it.each([
    ["there is no word of it", undefined, "silent"],
    ["it said nothing", state({}), "silent"],
    ["it last spoke before we last heard", state({ lastOutputAt: now - 40 }), "silent"],
    ["it spoke and we did not hear", state({ lastOutputAt: now - 20 }), { lastActivityAt: now - 20 }],
    ["it spoke by a clock that is ahead", state({ lastOutputAt: now + 500 }), { lastActivityAt: now }],
    ["it has output that it cannot deliver", state({ undelivered: true }), { aliveAt: now }],
    ["it waits for its model", state({ activity: "model" }), { aliveAt: now }],
    ["its runner said so long ago", state({ activity: "model", at: now - 60_000 }), "silent"],
    ["its runner said so just now", state({ activity: "tool", at: now - 59_999 }), { aliveAt: now }],
  ] as const)("silence, when %s", (_what, found, verdict) => {
    expect(decideSilence(task(running), { launch: "running", state: found }, now)).toEqual(verdict);
  });

  it("a runner whose launch exited is lost, regardless of its last state", () => {
    const report = { launch: "exited", state: state({ activity: "model", lastOutputAt: now - 20 }) } as const;
    expect(decideSilence(task(running), report, now)).toBe("runner lost");
  });

  it("neither an agent's wait nor undelivered output counts as activity forever", () => {
    const cap = 15 * 60_000;
    const at = (quietMs: number) => task(running, { lastActivityAt: now - quietMs, aliveAt: now - 1 });
    for (const found of [state({ activity: "tool" }), state({ undelivered: true })]) {
      const report = { launch: "running", state: found } as const;
      expect(decideSilence(at(cap - 1), report, now)).toEqual({ aliveAt: now });
      expect(decideSilence(at(cap), report, now)).toBe("silent");
    }
    expect(decideTimer(at(cap), { kind: "inactivity", taskId: "task_1", turn: 1 }, now)).toEqual({
      kind: "ask",
    });
  });

  it("an inactivity limit longer than the cap applies", () => {
    const patient = { limits: { maxDurationMs: 1e9, inactivityMs: 1e7 }, lastActivityAt: now - 1e6 };
    const report = { launch: "running", state: state({ activity: "tool" }) } as const;
    expect(decideSilence(task(running, patient), report, now)).toEqual({ aliveAt: now });
  });

  describe("a sign of life", () => {
    const due = (inMs: number) => task(running, { dueAt: now + inMs, deadlineAt: now + 10_000 });
    it("moves the due time only after half of the inactivity time", () => {
      expect(signOfLife(due(5100), { lastActivityAt: now }, now)).toEqual({ lastActivityAt: now });
      expect(signOfLife(due(5000), { lastActivityAt: now }, now)).toEqual({
        lastActivityAt: now,
        dueAt: now + 5100,
      });
    });

    it("is written only after half of the inactivity time, and not past the cap", () => {
      const at = (quietMs: number, aliveMs: number) =>
        task(running, { lastActivityAt: now - quietMs, aliveAt: now - aliveMs });
      expect(isNewSign(at(1000, 49), now)).toBe(false);
      expect(isNewSign(at(1000, 50), now)).toBe(true);
      expect(isNewSign(at(15 * 60_000, 50), now)).toBe(false);
    });
  });

  it("the reaper returns to an item with growing pauses in the same turn and status", () => {
    let at = task(running);
    const waits: number[] = [];
    for (let i = 0; i < 6; i++) {
      const again = reapAgain(at, now);
      waits.push((again.dueAt ?? 0) - now);
      at = { ...at, ...again };
    }
    expect(waits.map((ms) => ms / 60_000)).toEqual([1, 2, 4, 8, 15, 15]);
    expect((reapAgain({ ...at, turn: 2 }, now).dueAt ?? 0) - now).toBe(60_000);
    expect((reapAgain({ ...at, state: stopping }, now).dueAt ?? 0) - now).toBe(60_000);
  });

  it("an unproven stop is retried with growing, bounded pauses", () => {
    expect([0, 1, 2, 3, 9, 99].map(terminateBackoffMs)).toEqual([2000, 4000, 8000, 16_000, 60_000, 60_000]);
  });
});

describe("decidePushed", () => {
  it.each([
    ["pushed", "succeeded", undefined],
    ["refused", "failed", "push_failed"],
    ["timed out", "failed", "finalize_timeout"],
    ["unknown", "failed", "finalize_timeout"],
  ] as const)("%s", (outcome, status, code) => {
    const state = decidePushed(push, outcome, now);
    expect(state).toMatchObject({
      status,
      result: { commit: "c0ffee", branch: "b", pushed: outcome === "pushed" },
    });
    expect("error" in state ? state.error.code : undefined).toBe(code);
  });

  it("is looked up until 15 minutes after the grant", () => {
    const finalizeBy = now + 60_000;
    expect(isPushGivenUp(finalizeBy, now + 15 * 60_000 - 1)).toBe(false);
    expect(isPushGivenUp(finalizeBy, now + 15 * 60_000)).toBe(true);
    expect(decidePushed(push, "unknown", now)).toMatchObject({
      error: { detail: expect.stringContaining("unknown") },
    });
  });
});
