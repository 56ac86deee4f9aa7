import { expect, test } from "vitest";
import { describeAdapter, readAll, recording } from "../testing/adapter-kit.ts";
import { claude, createClaudeReader } from "./claude.ts";

const recordings = ["claude-tool", "claude-resume", "claude-unknown", "claude-error", "claude-retry"];
describeAdapter("claude", { adapter: claude, recordings });

const read = (name: string) => readAll(createClaudeReader(), recording(name));

test("a turn with a tool yields the tool's input and output, texts, the answer and the cost", () => {
  const { events, activities, usage, conversationId } = read("claude-tool");
  expect(events).toEqual([
    {
      kind: "tool_use",
      name: "Bash",
      input: '{"command":"echo from-tool > made.txt; cat made.txt","description":"As scripted"}',
    },
    { kind: "tool_result", ok: true, text: "from-tool" },
    { kind: "text", text: "made it" },
    { kind: "result", ok: true, text: "made it" },
  ]);
  expect(activities).toEqual(["model", "tool", "model", "model", "none"]);
  expect(usage).toEqual({ inputTokens: 200, outputTokens: 14, costUsd: 0.00108 });
  expect(conversationId).toBe("cddaf86a-9edf-40f4-acdb-6d77d9c08f62");
});

test("a resumed turn reports its own cost, not the conversation's", () => {
  const { usage } = read("claude-resume");
  expect(usage?.costUsd).toBeCloseTo(0.0016, 10);
  expect(usage).toMatchObject({ inputTokens: 300, outputTokens: 20 });
});

test("before its end, a turn's cost is the sum of its messages, each counted once", () => {
  const reader = createClaudeReader();
  const [init = "", first = "", , last = ""] = recording("claude-tool");
  for (const line of [init, first, first]) reader.read(line);
  expect(reader.usage()).toEqual({ inputTokens: 100, outputTokens: 1, costUsd: 0.00042 });
  reader.read(last);
  expect(reader.usage()?.inputTokens).toBe(200);
  reader.read(last.replaceAll("claude-opus-5-5", "claude-unknown").replaceAll("msg_3", "msg_4"));
  expect(reader.usage()).toEqual({ inputTokens: 300, outputTokens: 3, costUsd: 0.00084 });
});

test("resuming an unknown conversation fails with a message", () => {
  expect(read("claude-unknown").events).toEqual([
    {
      kind: "result",
      ok: false,
      text: "No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
    },
  ]);
  expect(read("claude-unknown").conversationId).toBeUndefined();
});

test("a model error is a failure, even if the stream reports success", () => {
  const { events } = read("claude-error");
  expect(events.at(-1)).toEqual({ kind: "result", ok: false, text: "API Error: 400 the stub answers 400" });
});

test("there is no activity between two retries of a failed call", () => {
  expect(read("claude-retry").activities).toEqual(["model", "none", "none", "none", "none", "none"]);
});

test("root gets IS_SANDBOX, which Claude Code requires to skip its permission checks", () => {
  const turn = { promptPath: "/p", env: {}, home: "/h" };
  expect(claude.start({ ...turn, isRoot: true }).env).toMatchObject({ IS_SANDBOX: "1" });
  expect(claude.start({ ...turn, isRoot: false }).env).not.toHaveProperty("IS_SANDBOX");
});
