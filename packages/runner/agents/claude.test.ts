import { expect, test } from "vitest";
import { claude, createClaudeReader } from "./claude.ts";
import { describeAdapter, readAll, recording } from "./testkit.ts";

const recordings = ["claude-tool", "claude-resume", "claude-unknown", "claude-error", "claude-retry"];
describeAdapter("claude", { adapter: claude, recordings });

const read = (name: string) => readAll(createClaudeReader(), recording(name));

test("a turn with a tool: what was said, what the tool was given and gave, the answer, and its own cost", () => {
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

test("a turn that goes on costs what it cost itself, not what the conversation has cost so far", () => {
  const { usage } = read("claude-resume");
  expect(usage?.costUsd).toBeCloseTo(0.0016, 10);
  expect(usage).toMatchObject({ inputTokens: 300, outputTokens: 20 });
});

test("before its end a turn costs what its messages have cost, each counted once", () => {
  const reader = createClaudeReader();
  const [init = "", first = "", , last = ""] = recording("claude-tool");
  for (const line of [init, first, first]) reader.read(line);
  expect(reader.usage()).toEqual({ inputTokens: 100, outputTokens: 1, costUsd: 0.00042 });
  reader.read(last);
  expect(reader.usage()?.inputTokens).toBe(200);
  reader.read(last.replaceAll("claude-opus-5-5", "claude-nobody-knows").replaceAll("msg_3", "msg_4"));
  expect(reader.usage()).toEqual({ inputTokens: 300, outputTokens: 3, costUsd: 0.00084 });
});

test("a conversation that is not there is a failure that says so", () => {
  expect(read("claude-unknown").events).toEqual([
    {
      kind: "result",
      ok: false,
      text: "No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
    },
  ]);
  expect(read("claude-unknown").conversationId).toBeUndefined();
});

test("a model that refuses is a failure, though the stream calls it a success", () => {
  const { events } = read("claude-error");
  expect(events.at(-1)).toEqual({ kind: "result", ok: false, text: "API Error: 400 the stub answers 400" });
});

test("between two tries of a call that failed nobody works", () => {
  expect(read("claude-retry").activities).toEqual(["model", "none", "none", "none", "none", "none"]);
});

test("as root it is told that it is in a sandbox, which it asks for before it skips its own checks", () => {
  const turn = { promptPath: "/p", env: {}, home: "/h" };
  expect(claude.start({ ...turn, isRoot: true }).env).toMatchObject({ IS_SANDBOX: "1" });
  expect(claude.start({ ...turn, isRoot: false }).env).not.toHaveProperty("IS_SANDBOX");
});
