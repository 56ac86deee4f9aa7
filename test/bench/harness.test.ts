import { expect, it } from "vitest";
import { type Figure, formatTable, interleaved, judge, percentile } from "./harness.ts";

it("computes percentiles by nearest rank, in any order of samples", () => {
  const samples = Array.from({ length: 100 }, (_, at) => 100 - at);
  expect([50, 99, 100].map((percent) => percentile(samples, percent))).toEqual([50, 99, 100]);
  expect(percentile([7], 99)).toBe(7);
  expect(() => percentile([], 50)).toThrow("nothing was measured");
});

it("judges a target by value or ratio, and nothing without a target", () => {
  const figure: Figure = { what: "a", unit: "ms", value: 30, baseline: { what: "b", value: 10 } };
  expect(judge("x", figure)).toMatchObject({ ratio: 3, met: undefined });
  expect(judge("x", { ...figure, target: { of: "ratio", atMost: 2 } }).met).toBe(false);
  expect(judge("x", { ...figure, target: { of: "value", atMost: 30 } }).met).toBe(true);
});

it("lets each contender go first in turn", async () => {
  const order: string[] = [];
  const contender = (name: string) => async (round: number) => void order.push(`${name}${round}`);
  await interleaved(2, [contender("a"), contender("b")]);
  expect(order).toEqual(["a0", "b0", "b1", "a1"]);
});

it("prints missed targets", () => {
  const target = { of: "ratio", atMost: 2 } as const;
  const figure: Figure = { what: "a", unit: "ms", value: 30, baseline: { what: "bare", value: 10 }, target };
  expect(formatTable([judge("x", figure)])).toMatch(
    /x +a +30\.0 ms +10\.0 ms {2}bare +3\.00× +≤ 2× +missed$/,
  );
});
