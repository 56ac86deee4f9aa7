import { batchMaxBytes, batchMaxChunks } from "@concierge/protocol";
import { expect, test } from "vitest";
import { createBatcher, readyBatchBytes } from "./batch.ts";

const batchMs = 250;
const at = "2026-01-01T00:00:00.000Z";

test("a batch that is not open is never due", () => {
  expect(createBatcher(batchMs).dueInMs(0)).toBe(Number.POSITIVE_INFINITY);
});

test("a batch's time runs from its first byte, not from its last", () => {
  const batcher = createBatcher(batchMs);
  batcher.open(1000);
  batcher.open(1249);
  expect(batcher.dueInMs(1249)).toBe(1);
  expect(batcher.dueInMs(1300)).toBe(0);
});

test("a batch of 32 KB is due at once", () => {
  const batcher = createBatcher(batchMs);
  batcher.open(0);
  batcher.add("stdout", Buffer.alloc(readyBatchBytes), at);
  expect(batcher.dueInMs(0)).toBe(0);
});

test("a batch has room up to the protocol's limit", () => {
  const batcher = createBatcher(batchMs);
  batcher.add("stdout", Buffer.alloc(batchMaxBytes - 1), at);
  expect([batcher.hasRoomFor(1), batcher.hasRoomFor(2)]).toEqual([true, false]);
});

test("consecutive output of one stream is one chunk, and chunks keep their order", () => {
  const batcher = createBatcher(batchMs);
  const arrivals = [
    ["stdout", "a"],
    ["stdout", "b"],
    ["stderr", "c"],
    ["stdout", "d"],
  ] as const;
  for (const [stream, text] of arrivals) batcher.add(stream, Buffer.from(text), at);
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  expect(batcher.take()).toEqual([
    { stream: "stdout", at: at, data: base64("ab") },
    { stream: "stderr", at: at, data: base64("c") },
    { stream: "stdout", at: at, data: base64("d") },
  ]);
});

test("an empty batch is closed without a post", () => {
  const batcher = createBatcher(batchMs);
  batcher.open(0);
  expect([batcher.isEmpty(), batcher.take()]).toEqual([true, undefined]);
  expect(batcher.dueInMs(0)).toBe(Number.POSITIVE_INFINITY);
});

test("an agent event keeps its place and counts toward the limit", () => {
  const batcher = createBatcher(batchMs);
  const event = { kind: "text", text: "hello" } as const;
  batcher.add("stdout", Buffer.from("a"), at);
  batcher.addEvent(event, at);
  batcher.add("stdout", Buffer.from("b"), at);
  const left = batchMaxBytes - 2 - JSON.stringify(event).length;
  expect([batcher.hasRoomFor(left), batcher.hasRoomFor(left + 1)]).toEqual([true, false]);
  expect(batcher.take()).toMatchObject([
    { stream: "stdout" },
    { at: at, agent: event },
    { stream: "stdout" },
  ]);
});

test("a batch is full at the maximum number of chunks, however small", () => {
  const batcher = createBatcher(batchMs);
  for (let n = 0; n < batchMaxChunks; n++) {
    expect(batcher.hasRoomFor(1)).toBe(true);
    batcher.add(n % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"), at);
  }
  expect(batcher.hasRoomFor(1)).toBe(false);
});
