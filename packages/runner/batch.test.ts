import { expect, test } from "vitest";
import { createBatcher, READY_BATCH_BYTES } from "./batch.ts";
import { MAX_BATCH_BYTES, MAX_BATCH_CHUNKS } from "./protocol.ts";

const BATCH_MS = 250;
const AT = "2026-01-01T00:00:00.000Z";

test("a batch that is not open is never due", () => {
  expect(createBatcher(BATCH_MS).dueInMs(0)).toBe(Number.POSITIVE_INFINITY);
});

test("its time runs from its first byte, not from its last", () => {
  const batcher = createBatcher(BATCH_MS);
  batcher.open(1000);
  batcher.open(1249);
  expect(batcher.dueInMs(1249)).toBe(1);
  expect(batcher.dueInMs(1300)).toBe(0);
});

test("a batch of 32 KB is due at once", () => {
  const batcher = createBatcher(BATCH_MS);
  batcher.open(0);
  batcher.add("stdout", Buffer.alloc(READY_BATCH_BYTES), AT);
  expect(batcher.dueInMs(0)).toBe(0);
});

test("it has room up to the most that a post may hold", () => {
  const batcher = createBatcher(BATCH_MS);
  batcher.add("stdout", Buffer.alloc(MAX_BATCH_BYTES - 1), AT);
  expect([batcher.hasRoomFor(1), batcher.hasRoomFor(2)]).toEqual([true, false]);
});

test("what one stream wrote in a row is one chunk, in the order in which it arrived", () => {
  const batcher = createBatcher(BATCH_MS);
  const arrivals = [
    ["stdout", "a"],
    ["stdout", "b"],
    ["stderr", "c"],
    ["stdout", "d"],
  ] as const;
  for (const [stream, text] of arrivals) batcher.add(stream, Buffer.from(text), AT);
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  expect(batcher.take()).toEqual([
    { stream: "stdout", at: AT, data: base64("ab") },
    { stream: "stderr", at: AT, data: base64("c") },
    { stream: "stdout", at: AT, data: base64("d") },
  ]);
});

test("an open batch that holds nothing is closed without a post", () => {
  const batcher = createBatcher(BATCH_MS);
  batcher.open(0);
  expect([batcher.isEmpty(), batcher.take()]).toEqual([true, undefined]);
  expect(batcher.dueInMs(0)).toBe(Number.POSITIVE_INFINITY);
});

test("what the agent said stands where it was understood, and counts toward the bound", () => {
  const batcher = createBatcher(BATCH_MS);
  const event = { kind: "text", text: "hello" } as const;
  batcher.add("stdout", Buffer.from("a"), AT);
  batcher.addEvent(event, AT);
  batcher.add("stdout", Buffer.from("b"), AT);
  const left = MAX_BATCH_BYTES - 2 - JSON.stringify(event).length;
  expect([batcher.hasRoomFor(left), batcher.hasRoomFor(left + 1)]).toEqual([true, false]);
  expect(batcher.take()).toMatchObject([
    { stream: "stdout" },
    { at: AT, agent: event },
    { stream: "stdout" },
  ]);
});

test("a batch has room for so many chunks only, however small", () => {
  const batcher = createBatcher(BATCH_MS);
  for (let n = 0; n < MAX_BATCH_CHUNKS; n++) {
    expect(batcher.hasRoomFor(1)).toBe(true);
    batcher.add(n % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"), AT);
  }
  expect(batcher.hasRoomFor(1)).toBe(false);
});
