import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { describeAdapter, readAll, recording } from "../testing/adapter-kit.ts";
import { codex, createCodexReader } from "./codex.ts";
import { createRollout } from "./codex-rollout.ts";

const recordings = ["codex-tool", "codex-resume", "codex-tool-failed", "codex-error", "codex-retry"];
describeAdapter("codex", { adapter: codex, recordings });

const read = (name: string) => readAll(createCodexReader(), recording(name));
const threadId = "01a1e2fe-bbbb-7030-abe4-09e5520fa9fd";

test("a turn with a tool yields the tool's input and output, and its last text as the answer", () => {
  const { events, activities, usage } = read("codex-tool");
  expect(events).toEqual([
    { kind: "tool_use", name: "command", input: "/bin/bash -lc 'echo from-tool > made.txt; cat made.txt'" },
    { kind: "tool_result", ok: true, text: "from-tool\n" },
    { kind: "text", text: "made it" },
    { kind: "result", ok: true, text: "made it" },
  ]);
  expect(activities).toEqual(["none", "model", "tool", "model", "model", "none"]);
  expect(usage).toMatchObject({ inputTokens: 200, outputTokens: 14 });
});

test("a failed tool is reported as failed", () => {
  expect(read("codex-tool-failed").events).toContainEqual({ kind: "tool_result", ok: false, text: "oops\n" });
});

test("a model error is a failure with the model's message", () => {
  const [result, ...more] = read("codex-error").events;
  expect([result, more]).toEqual([
    { kind: "result", ok: false, text: expect.stringContaining("the stub answers 400") },
    [],
  ]);
});

test("there is no activity between two retries of a failed call", () => {
  expect(read("codex-retry").activities).toEqual(["none", "model", ...Array(5).fill("none")]);
});

test("an unknown model costs as much as the most expensive known one", () => {
  expect(read("codex-tool").usage?.costUsd).toBeCloseTo((200 * 10 + 14 * 50) / 1e6, 10);
});

test("the configuration has the model's address and the name of the key's variable, but no key", () => {
  const env = { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", OPENAI_API_KEY: "hidden" };
  const run = codex.start({ promptPath: "/p", env, home: "/h", isRoot: false });
  expect(run.env).toEqual({ CODEX_HOME: "/h/codex" });
  const config = run.files?.["/h/codex/config.toml"];
  expect(config).toContain('base_url = "http://127.0.0.1:9/v1"');
  expect(config).toContain('env_key = "OPENAI_API_KEY"');
  expect(config).not.toContain("hidden");
});

describe("the rollout file", () => {
  let sessions: string;
  let file: string;
  beforeEach(() => {
    sessions = mkdtempSync(join(tmpdir(), "concierge-rollout-"));
    mkdirSync(join(sessions, "2026/11/16"), { recursive: true });
    file = join(sessions, "2026/11/16", `rollout-2026-11-16T06-13-34-${threadId}.jsonl`);
  });
  afterEach(() => rmSync(sessions, { recursive: true, force: true }));

  /** The thread's first turn used 100 and 7, its second 300 and 20, its third 600 and 16. */
  const kept = recording("codex-rollout");
  const upToTurn = (turn: number) => {
    const ends = kept.flatMap((line, at) => (line.includes('"task_complete"') ? [at + 1] : []));
    return kept
      .slice(0, ends[turn - 1])
      .join("\n")
      .concat("\n");
  };

  test("separates a turn's usage and cost from earlier turns", () => {
    writeFileSync(file, upToTurn(1));
    const reader = createCodexReader(createRollout(sessions, threadId));
    const { usage } = readAll(reader, recording("codex-resume"));
    expect(usage).toMatchObject({ inputTokens: 300, outputTokens: 20 });
    expect(usage?.costUsd).toBeCloseTo((300 * 2 + 20 * 10) / 1e6, 10);
  });

  test("has a turn's usage before its end", () => {
    writeFileSync(file, upToTurn(2));
    const reader = createCodexReader(createRollout(sessions, threadId));
    expect(reader.usage()).toMatchObject({ inputTokens: 0, outputTokens: 0 });
    const [started = ""] = recording("codex-tool-failed");
    reader.read(started);
    const counts = kept.flatMap((line, at) => (line.includes('"token_usage_record"') ? [at + 1] : []));
    writeFileSync(file, kept.slice(0, counts[2]).join("\n").concat("\n"));
    expect(reader.usage()).toMatchObject({ inputTokens: 100, outputTokens: 7 });
    writeFileSync(file, kept.join("\n").concat("\n"));
    expect(reader.usage()).toMatchObject({ inputTokens: 600, outputTokens: 16 });
  });

  test("is found once the thread's id is known", () => {
    const reader = createCodexReader(createRollout(sessions, undefined));
    writeFileSync(file, upToTurn(1));
    expect(reader.usage()).toBeUndefined();
    const [started = ""] = recording("codex-resume");
    reader.read(started);
    expect(reader.usage()).toMatchObject({ inputTokens: 100, outputTokens: 7 });
  });

  test("may be missing or contain garbage", () => {
    const missing = createCodexReader(createRollout("/nonexistent", threadId));
    expect(readAll(missing, recording("codex-resume")).usage).toMatchObject({ inputTokens: 400 });
    writeFileSync(file, randomBytes(1 << 20));
    const odd = createCodexReader(createRollout(sessions, threadId));
    expect(readAll(odd, recording("codex-resume")).usage).toMatchObject({ inputTokens: 400 });
  });
});
