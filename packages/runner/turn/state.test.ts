import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runFiles, type StateFile } from "@concierge/protocol";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createStateFile } from "./state.ts";

let directory: string;

beforeEach(() => {
  vi.useFakeTimers();
  directory = mkdtempSync(join(tmpdir(), "concierge-state-"));
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(directory, { recursive: true, force: true });
});

function setUp(path = directory) {
  const state: StateFile = {
    at: "",
    pid: 1,
    agentPid: null,
    lastOutputAt: null,
    producedSeq: 0,
    ackedSeq: 0,
    activity: "none",
  };
  const file = createStateFile(path, 9_000, () => ({ ...state, at: new Date().toISOString() }));
  const change = (seq: number) => {
    state.producedSeq = seq;
    file.changed();
  };
  const read = (): StateFile => JSON.parse(readFileSync(join(path, runFiles.state), "utf8"));
  return { file, change, written: () => read().producedSeq, writtenAt: () => Date.parse(read().at) };
}

test("the first change is written after 50 ms, later ones once a second, and the last one on close", () => {
  const { file, change, written } = setUp();
  change(1);
  expect(written).toThrow("ENOENT");
  vi.advanceTimersByTime(50);
  change(2);
  expect(written()).toBe(1);
  vi.advanceTimersByTime(999);
  change(3);
  expect(written()).toBe(1);
  vi.advanceTimersByTime(1);
  expect(written()).toBe(3);
  change(4);
  file.close();
  expect(written()).toBe(4);
  expect(readdirSync(directory)).toEqual([runFiles.state]);
});

test("the file is never older than ten seconds until it is closed", () => {
  const { file, change, writtenAt } = setUp();
  change(1);
  vi.advanceTimersByTime(50);
  for (let second = 0; second < 60; second++) {
    vi.advanceTimersByTime(1_000);
    expect(Date.now() - writtenAt()).toBeLessThan(10_000);
  }
  file.close();
  const last = writtenAt();
  vi.advanceTimersByTime(60_000);
  expect(writtenAt()).toBe(last);
});

test("without a change the file is only refreshed", () => {
  const { change, written } = setUp();
  change(1);
  vi.advanceTimersByTime(1_050);
  rmSync(join(directory, runFiles.state));
  vi.advanceTimersByTime(7_900);
  expect(written).toThrow("ENOENT");
  change(2);
  vi.advanceTimersByTime(50);
  expect(written()).toBe(2);
});

test("a failed write does not throw", () => {
  const { change } = setUp(join(directory, "missing"));
  change(1);
  expect(() => vi.advanceTimersByTime(50)).not.toThrow();
});
