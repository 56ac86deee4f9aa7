import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RUN_FILES, type RunnerState } from "./protocol.ts";
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
  const state: RunnerState = {
    pid: 1,
    agentPid: null,
    lastOutputAt: null,
    producedSeq: 0,
    ackedSeq: 0,
    activity: "none",
  };
  const file = createStateFile(path, () => state);
  const change = (seq: number) => {
    state.producedSeq = seq;
    file.changed();
  };
  const written = () => JSON.parse(readFileSync(join(path, RUN_FILES.state), "utf8")).producedSeq;
  return { file, change, written };
}

test("a first change is written soon but not at once, later ones once a second, and the last one always", () => {
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
  expect(readdirSync(directory)).toEqual([RUN_FILES.state]);
});

test("nothing is written while nothing changes", () => {
  const { change, written } = setUp();
  change(1);
  vi.advanceTimersByTime(1_050);
  rmSync(join(directory, RUN_FILES.state));
  vi.advanceTimersByTime(10_000);
  expect(written).toThrow("ENOENT");
  change(2);
  vi.advanceTimersByTime(50);
  expect(written()).toBe(2);
});

test("a state that cannot be written does not end the turn", () => {
  const { change } = setUp(join(directory, "missing"));
  change(1);
  expect(() => vi.advanceTimersByTime(50)).not.toThrow();
});
