import type { Context, SQSEvent } from "aws-lambda";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { eachMessage } from "./batch.ts";
import { inContext, timeLeftMs } from "./context.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

const metrics = { count: () => {} };
const lambda = (remainingMs: number) => ({ getRemainingTimeInMillis: () => remainingMs }) as Context;
const batch = (...bodies: string[]) =>
  ({
    Records: bodies.map((body) => ({ messageId: body, body, attributes: {}, messageAttributes: {} })),
  }) as unknown as SQSEvent;

it("a message's time is the function's, but for what it takes to write what came of it", async () => {
  const left: number[] = [];
  const work = async (): Promise<void> => {
    left.push(timeLeftMs());
    vi.advanceTimersByTime(10_000);
    left.push(timeLeftMs());
  };
  await eachMessage(batch("a"), lambda(60_000), { name: "Timer", metrics, work });
  expect(left).toEqual([55_000, 45_000]);
});

it("time that is over is none, and not less", async () => {
  await inContext({ requestId: "r" }, async () => expect(timeLeftMs()).toBe(0), Date.now() - 1000);
});

it("without a function there is no limit", async () => {
  expect(timeLeftMs()).toBe(Number.POSITIVE_INFINITY);
  await inContext({ requestId: "r" }, async () => expect(timeLeftMs()).toBe(Number.POSITIVE_INFINITY));
});
