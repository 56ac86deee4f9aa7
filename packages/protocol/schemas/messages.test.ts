import { describe, expect, test } from "vitest";
import { batchMaxBytes, batchMaxChunks, eventMaxBytes } from "../limits.ts";
import { beatPostSchema, finalizePostSchema, outputPostSchema } from "./messages.ts";
import { stateFileSchema } from "./state.ts";

const at = "2026-11-01T12:00:00.000Z";
const output = (bytes: number) => ({
  stream: "stdout",
  at,
  data: Buffer.alloc(bytes, "x").toString("base64"),
});
const event = (bytes: number) => {
  const empty = JSON.stringify({ kind: "text", text: "" }).length;
  return { at, agent: { kind: "text", text: "x".repeat(bytes - empty) } };
};
const isAccepted = (chunks: unknown[]) => outputPostSchema.safeParse({ seq: 1, chunks }).success;

describe("an output post", () => {
  test.each([
    ["the maximum of bytes", [output(batchMaxBytes)], true],
    ["a byte too many", [output(batchMaxBytes), output(1)], false],
    ["the maximum of bytes with an event", [output(batchMaxBytes - 100), event(100)], true],
    ["an event that exceeds the bytes", [output(batchMaxBytes - 100), event(101)], false],
    ["an event of the maximum size", [event(eventMaxBytes)], true],
    ["an event that is too large", [event(eventMaxBytes + 1)], false],
    ["the maximum of chunks", Array(batchMaxChunks).fill(output(1)), true],
    ["a chunk too many", Array(batchMaxChunks + 1).fill(output(1)), false],
    ["no chunk", [], false],
  ])("with %s", (_, chunks, expected) => {
    expect(isAccepted(chunks)).toBe(expected);
  });
});

test("a cost is rounded to a billionth of a dollar", () => {
  const usage = { inputTokens: 1, outputTokens: 2, costUsd: 0.1234567891 };
  expect(beatPostSchema.parse({ activity: "none", usage }).usage?.costUsd).toBe(0.123456789);
});

test.each(["--resume", "", "two words", "x".repeat(201)])("%j is not a conversation id", (conversationId) => {
  expect(beatPostSchema.safeParse({ activity: "none", conversationId }).success).toBe(false);
});

test("a push names a full commit hash", () => {
  const post = { branch: "work", exitCode: 0, text: "" };
  expect(finalizePostSchema.safeParse({ ...post, commit: "a".repeat(40) }).success).toBe(true);
  expect(finalizePostSchema.safeParse({ ...post, commit: "main" }).success).toBe(false);
});

test("the state file of an earlier runner, without its time, is readable", () => {
  const state = { lastOutputAt: null, producedSeq: 0, ackedSeq: 0, activity: "none" };
  expect(stateFileSchema.safeParse(state).success).toBe(true);
});
