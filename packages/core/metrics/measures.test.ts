import { describe, expect, it } from "vitest";
import { bucketOf, middleOf, percentile } from "./histogram.ts";
import { countersOf, measured, type Sample, sumOf } from "./measures.ts";
import { successMetrics } from "./targets.ts";

const none = { pool_sandboxes: 0, pool_users: 0 };
const metric = (samples: readonly Sample[], name: string) =>
  measured(countersOf(samples), none).find((one) => one.name === name);

describe("a bucket", () => {
  it("stands for its values with an error of at most 4.5 %", () => {
    for (let value = 2; value < 80_000_000; value = Math.ceil(value * 1.013)) {
      const error = Math.abs(middleOf(bucketOf(value)) - value) / value;
      expect(error, String(value)).toBeLessThan(0.045);
    }
  });

  it("never loses a value, however small or large", () => {
    expect([-1, 0, 1, Number.NaN].map(bucketOf)).toEqual([0, 0, 0, 0]);
    expect(bucketOf(Number.MAX_SAFE_INTEGER)).toBe(bucketOf(1e12));
  });
});

describe("a percentile", () => {
  it("is the nearest rank", () => {
    const counts = new Map([
      [bucketOf(100), 94],
      [bucketOf(9000), 6],
    ]);
    expect(percentile(counts, 0.94)).toBeLessThan(110);
    expect(percentile(counts, 0.95)).toBeGreaterThan(8000);
    expect(percentile(new Map(), 0.95)).toBeNull();
  });
});

describe("the success metrics", () => {
  it("are all listed, without a value or a verdict if nothing happened", () => {
    const items = measured({}, none);
    expect(items.map(({ name }) => name)).toEqual(Object.keys(successMetrics));
    for (const { met } of items) expect(met).toBeNull();
    expect(items.find(({ name }) => name === "stop_success")).toMatchObject({ value: null, samples: 0 });
  });

  it("count a share and compare it with its target", () => {
    const proven: Sample = ["stop_proven", 1, "stopped_by_user"];
    const stops: Sample[] = Array.from({ length: 19 }, () => proven);
    const failed: Sample = ["stop_unproven", 1, "stopped_by_user"];
    expect(metric([...stops, failed], "stop_success")).toMatchObject({ value: 0.95, met: true, samples: 20 });
    expect(metric([...stops, failed, failed], "stop_success")).toMatchObject({ met: false, samples: 21 });
    // Another cause is not a user's stop, but one of all.
    expect(metric([["stop_proven", 1, "deadline_exceeded"]], "stop_success")?.samples).toBe(0);
  });

  it("count a percentile, an average and a sum", () => {
    const samples: Sample[] = [
      ["stop_ms", 100, "stopped_by_user"],
      ["stop_ms", 40_000, "deadline_exceeded"],
      ["turn_ms", 10_000],
      ["turn_ms", 20_000],
      ["turn_ended", 1, "succeeded"],
      ["push_unexpected", 1, "stopped"],
    ];
    expect(metric(samples, "cancellation_time")).toMatchObject({ samples: 1, met: true, unit: "ms" });
    expect(metric(samples, "termination_time")).toMatchObject({ samples: 2, met: false });
    expect(metric(samples, "response_time")).toMatchObject({ value: 15_000, samples: 2, met: false });
    expect(metric(samples, "pushes_after_stop")).toMatchObject({ value: 1, met: false, samples: 1 });
    expect(metric(samples, "pushes_after_timeout")).toMatchObject({ value: 0, met: true });
  });

  it("add up in any order of hours and users", () => {
    const samples: Sample[] = Array.from({ length: 40 }, (_, at) => ["stop_ms", 50 * at, "stopped_by_user"]);
    const parts = samples.map((sample) => countersOf([sample]));
    expect(sumOf(parts.toReversed())).toEqual(countersOf(samples));
  });

  it("use counter names that an update expression accepts", () => {
    const samples: Sample[] = [
      ["turn_ended", 1, "inactivity_timeout"],
      ["stop_ms", 1, "stopped_by_user"],
      ["room_ms", 5, "cold"],
    ];
    for (const name of Object.keys(countersOf(samples))) expect(name).toMatch(/^[a-z0-9_]+$/);
  });
});
