import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSpool, memoryWindowBytes, type Spool } from "./spool.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "concierge-spool-"));
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

const body = (n: number) => Buffer.alloc(memoryWindowBytes / 2, n);

function drain(spool: Spool): number[] {
  const drained: number[] = [];
  for (let head = spool.head(); head !== undefined; head = spool.head()) {
    expect(head.equals(body(head[0] ?? 0))).toBe(true);
    drained.push(head[0] ?? 0);
    spool.shift();
  }
  return drained;
}

test("posts come back complete and in order, from memory and from disk, until they are acknowledged", () => {
  const spool = createSpool(join(directory, "spool"), 1 << 30);
  for (const n of [1, 2, 3, 4, 5]) spool.push(body(n));
  spool.shift();
  spool.shift();
  expect(spool.head()).toEqual(spool.head());
  spool.push(body(6));
  expect(drain(spool)).toEqual([3, 4, 5, 6]);
  expect(spool.size()).toBe(0);
  spool.close();
});

test("the spool file is unlinked, so nothing is left behind", () => {
  const path = join(directory, "spool");
  const spool = createSpool(path, 1 << 30);
  for (const n of [1, 2, 3]) spool.push(body(n));
  expect(existsSync(path)).toBe(false);
  spool.close();
});

test("the spool is full from its limit until its file is drained, and then accepts more", () => {
  const spool = createSpool(join(directory, "spool"), memoryWindowBytes);
  const fullness: boolean[] = [];
  for (const n of [1, 2, 3, 4]) {
    spool.push(body(n));
    fullness.push(spool.isFull());
  }
  for (let n = 0; n < 4; n++) {
    spool.shift();
    fullness.push(spool.isFull());
  }
  expect(fullness).toEqual([false, false, false, true, true, true, true, false]);
  for (const n of [5, 6, 7]) spool.push(body(n));
  expect(spool.isFull()).toBe(false);
  expect(drain(spool)).toEqual([5, 6, 7]);
  spool.close();
});

test("if the disk cannot be written, posts stay in memory and reading pauses until they are delivered", () => {
  const spool = createSpool(join(directory, "missing", "spool"), 1 << 30);
  for (const n of [1, 2, 3]) spool.push(body(n));
  expect(spool.isFull()).toBe(true);
  expect(drain(spool)).toEqual([1, 2, 3]);
  expect(spool.isFull()).toBe(false);
});
