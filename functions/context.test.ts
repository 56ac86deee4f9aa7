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

it("a message may use the function's time, minus a reserve for writing the outcome", async () => {
  const left: number[] = [];
  const work = async (): Promise<void> => {
    left.push(timeLeftMs());
    vi.advanceTimersByTime(10_000);
    left.push(timeLeftMs());
  };
  await eachMessage(batch("a"), lambda(60_000), { name: "Timer", metrics, work });
  expect(left).toEqual([55_000, 45_000]);
});

it("no time is left after the deadline, never a negative amount", async () => {
  await inContext({ requestId: "r" }, async () => expect(timeLeftMs()).toBe(0), Date.now() - 1000);
});

it("there is no limit without a deadline", async () => {
  expect(timeLeftMs()).toBe(Number.POSITIVE_INFINITY);
  await inContext({ requestId: "r" }, async () => expect(timeLeftMs()).toBe(Number.POSITIVE_INFINITY));
});
