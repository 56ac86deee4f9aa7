import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { inTime } from "./budget.ts";

const hangs = (signals: AbortSignal[]) => (signal: AbortSignal) => {
  signals.push(signal);
  return new Promise<never>(() => {});
};

describe("inTime", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it.each([
    ["its own limit", 1000, undefined, 1000],
    ["its own limit if more time is left", 1000, () => 5000, 1000],
    ["the end of the budget if that is earlier", 1000, () => 20, 20],
  ])(
    "ends a call at %s, even if the call ignores its signal",
    async (_what, timeoutMs, timeLeftMs, endsAfterMs) => {
      const signals: AbortSignal[] = [];
      const ended = vi.fn();
      const call = inTime({ timeLeftMs }, timeoutMs, hangs(signals)).catch(ended);
      await vi.advanceTimersByTimeAsync(endsAfterMs - 1);
      expect(ended).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      await call;
      expect(ended).toHaveBeenCalledWith(expect.objectContaining({ name: "TimeoutError" }));
      expect(signals[0]?.aborted).toBe(true);
    },
  );

  it.each([0, -1, Number.NaN])("makes no call if %d ms are left", async (left) => {
    const signals: AbortSignal[] = [];
    await expect(inTime({ timeLeftMs: () => left }, 1000, hangs(signals))).rejects.toThrow();
    expect(signals).toEqual([]);
  });

  it("aborts what is still open after success and after failure", async () => {
    const signals: AbortSignal[] = [];
    const open = (signal: AbortSignal) => void signals.push(signal);
    expect(await inTime({}, 1000, async (signal) => open(signal))).toBeUndefined();
    const fails = async (signal: AbortSignal) => {
      open(signal);
      throw new Error("it failed");
    };
    await expect(inTime({}, 1000, fails)).rejects.toThrow("it failed");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
