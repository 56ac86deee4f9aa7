import { expect, test } from "vitest";
import { describeAdapter, readAll, recording } from "../testing/adapter-kit.ts";
import { createCursorReader, cursor } from "./cursor.ts";

describeAdapter("cursor", { adapter: cursor, recordings: ["cursor-tool"] });

test("a turn with tools yields texts, the tools' input and output, and the answer", () => {
  const { events, activities, usage, conversationId } = readAll(
    createCursorReader(),
    recording("cursor-tool"),
  );
  expect(events).toEqual([
    { kind: "text", text: "I will make it." },
    { kind: "tool_use", name: "shell", input: '{"command":"echo from-tool > made.txt; cat made.txt"}' },
    { kind: "tool_result", ok: true, text: "from-tool\n" },
    { kind: "tool_use", name: "read", input: '{"path":"gone.txt"}' },
    { kind: "tool_result", ok: false, text: '{"errorMessage":"File not found"}' },
    { kind: "text", text: "made it" },
    { kind: "result", ok: true, text: "made it" },
  ]);
  expect(activities).toEqual([
    "none",
    ...["model", "model", "model", "model"],
    ...["tool", "model", "tool", "model"],
    ...["model", "none"],
  ]);
  expect(usage).toEqual({ inputTokens: 150, outputTokens: 14, costUsd: 0 });
  expect(conversationId).toBe("c6b62c6f-7ead-4fd6-9922-e952131177ff");
});
