import {
  baseSnapshotSchema,
  bounds,
  keySchema,
  limits,
  type OutputBatch,
  sessionSchema,
  slotSchema,
  taskSchema,
  warmSchema,
} from "@concierge/core";
import { describe, expect, it } from "vitest";
import * as z from "zod/mini";
import { recordItem } from "./items.ts";

/** Half of DynamoDB's limit, as a margin. */
const itemMaxBytes = 200 * 1024;

/** Keys, index attributes, version and expiry. */
const housekeepingBytes = 1024;
/** DynamoDB's sizes of a number, of a list or map, and of each of its elements. */
const numberBytes = 21;
const collectionBytes = 3;
const elementBytes = 1;

describe("the largest item of each schema", () => {
  it.each(Object.entries(storedSchemas()))("%s is under 200 KB and every part is bounded", (name, schema) => {
    expect(boundOf(schema, name) + housekeepingBytes).toBeLessThan(itemMaxBytes);
  });

  it("has no known size if a string, list or record is unbounded", () => {
    expect(() => boundOf(z.object({ a: z.optional(z.string()) }), "x")).toThrow("x.a has no bound");
    expect(() => boundOf(z.array(z.int()), "x")).toThrow("x has no bound");
    expect(() => boundOf(z.record(z.enum(["a"]), z.int()), "x")).toThrow("x has no bound");
  });

  it.each(Object.entries(smallItems()))("%s is small", (_name, item) => {
    expect(sizeOf(item) + housekeepingBytes).toBeLessThan(itemMaxBytes / 10);
  });

  it("a prompt is under 200 KB", () => {
    expect(limits.promptMaxBytes + housekeepingBytes).toBeLessThan(itemMaxBytes);
  });

  it.each(largestBatches())("a batch of output is under 200 KB, full of %s", (_what, chunks) => {
    const item = recordItem("task", { kind: "output", turn: 200, seq: 1e9, chunks }, 1.8e12);
    expect(sizeOf(item) + housekeepingBytes).toBeLessThan(itemMaxBytes);
  });
});

function largestBatches(): [string, OutputBatch["chunks"]][] {
  const { batchMaxBytes, batchMaxChunks } = limits;
  const at = 1_800_000_000_123;
  const share = Math.floor(batchMaxBytes / batchMaxChunks);
  // The API counts an event by its JSON.
  const event = { kind: "tool_result", ok: false, text: "" } as const;
  const text = "x".repeat(share - JSON.stringify(event).length);
  return [
    ["bytes", each(batchMaxChunks, () => ({ stream: "stdout" as const, at, data: new Uint8Array(share) }))],
    ["events", each(batchMaxChunks, () => ({ at, agent: { ...event, text } }))],
    ["one large piece", [{ stream: "stdout", at, data: new Uint8Array(batchMaxBytes) }]],
  ];
}

function storedSchemas(): Record<string, z.core.$ZodType> {
  return {
    "a task": taskSchema,
    "a session": sessionSchema,
    "a slot": slotSchema,
    "a warm sandbox": warmSchema,
    "the base": baseSnapshotSchema,
    "a key": keySchema,
  };
}

/** Items without a schema. Users control only names in them, whose length is checked. */
function smallItems(): Record<string, object> {
  const counters = [
    "turns",
    "agentMs",
    "creations",
    "idleMs",
    ...each(60, (i) => `stepMs_of-a-long-name-${i}`),
  ];
  return {
    "an idempotency key": {
      pk: "x".repeat(64 + 128 + 32),
      requestHash: "x".repeat(64),
      taskId: "x".repeat(40),
      turn: 1,
      expiresAt: 1,
    },
    "a user's day": Object.fromEntries(counters.map((name) => [`n_${name}`, 1.5])),
    "the reaper's cursor": { cursor: "x".repeat(4096) },
    progress: { kind: "progress", turn: 1, seq: 1, at: 1, step: "x".repeat(32), detail: "x".repeat(1024) },
  };
}

/** The largest size of a value of a schema. */
function boundOf(schema: z.core.$ZodType, path: string): number {
  const { maxBytes, maxItems } = bounds.get(schema) ?? {};
  if (maxBytes !== undefined) return maxBytes;
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "lazy":
      return boundOf(def.getter(), path);
    case "optional":
    case "nullable":
      return boundOf(def.innerType, path);
    case "boolean":
    case "null":
      return 1;
    case "number":
      return numberBytes;
    case "enum":
      return Math.max(...Object.values(def.entries).map((value) => String(value).length));
    case "literal":
      return Math.max(...def.values.map((value) => String(value).length));
    case "union":
      return Math.max(...def.options.map((option) => boundOf(option, path)));
    case "object": {
      const fields = Object.entries(def.shape).map(
        ([name, field]) => name.length + elementBytes + boundOf(field, `${path}.${name}`),
      );
      return collectionBytes + sum(fields);
    }
    case "array":
      return collectionBytes + items(maxItems, path) * (elementBytes + boundOf(def.element, `${path}[]`));
    case "record": {
      const entry = boundOf(def.keyType, `${path} key`) + boundOf(def.valueType, `${path}{}`);
      return collectionBytes + items(maxItems, path) * (elementBytes + entry);
    }
    default:
      throw new Error(`${path} has no bound (${def.type})`);
  }
}

function items(maxItems: number | undefined, path: string): number {
  if (maxItems === undefined) throw new Error(`${path} has no bound`);
  return maxItems;
}

/** DynamoDB's size of a value. */
function sizeOf(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  // One byte per two digits, plus one.
  if (typeof value === "number") return Math.ceil(String(value).length / 2) + 1;
  if (value instanceof Uint8Array) return value.length;
  if (Array.isArray(value)) return collectionBytes + sum(value.map((part) => elementBytes + sizeOf(part)));
  if (typeof value !== "object" || value === null) return 1;
  const fields = Object.entries(value).map(([name, part]) => name.length + elementBytes + sizeOf(part));
  return collectionBytes + sum(fields);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function each<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
