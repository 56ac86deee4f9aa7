import { AsyncLocalStorage } from "node:async_hooks";
import { catalogue } from "@concierge/core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { identityOf, readMetrics } from "../../test/testing/emf.ts";
import { inContext, learn, timeLeftMs } from "../context.ts";
import { createMetrics } from "./metrics.ts";

const metrics = createMetrics("test");
let lines: string[];
beforeEach(() => {
  lines = [];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The values that CloudWatch extracts, by name. */
const found = () => readMetrics(lines).map((datum) => [identityOf(datum), datum.value]);
const inRequest = (work: () => void | Promise<void>) =>
  inContext({ requestId: "request-1" }, async () => await work());

it("a count outside any work is printed at once, with and without its dimension", () => {
  metrics.count("room_ms", 12, { origin: "warm" });
  expect(lines).toHaveLength(1);
  expect(found()).toEqual([
    ["Concierge/room_ms service=concierge-test", 12],
    ["Concierge/room_ms origin=warm,service=concierge-test", 12],
  ]);
  expect(readMetrics(lines)[0]).toMatchObject({ unit: "Milliseconds" });
});

describe("the counts of one invocation", () => {
  it("share one line, with all values of a metric", async () => {
    await inRequest(() => {
      metrics.count("room_given", 1, { origin: "cold" });
      metrics.count("room_ms", 12, { origin: "cold" });
      metrics.count("messages", 1, { function: "Worker" });
      metrics.count("stop_requested");
      metrics.count("stop_requested", 3);
      expect(lines).toEqual([]);
    });
    expect(lines).toHaveLength(1);
    expect(found()).toEqual([
      ["Concierge/room_given service=concierge-test", 1],
      ["Concierge/room_ms service=concierge-test", 12],
      ["Concierge/room_given origin=cold,service=concierge-test", 1],
      ["Concierge/room_ms origin=cold,service=concierge-test", 12],
      ["Concierge/messages service=concierge-test", 1],
      ["Concierge/messages function=Worker,service=concierge-test", 1],
      ["Concierge/stop_requested service=concierge-test", 1],
      ["Concierge/stop_requested service=concierge-test", 3],
    ]);
  });

  it("take as many lines as a dimension has values", async () => {
    await inRequest(() => {
      for (const step of ["find", "create", "install"]) metrics.count("room_step_ms", 5, { step });
      for (const step of ["create", "find"]) metrics.count("room_step_ms", 7, { step });
      metrics.count("messages", 1, { function: "Worker" });
      metrics.count("room_given", 1, { origin: "cold" });
    });
    expect(lines).toHaveLength(3);
    const steps = found().filter(([name]) => String(name).includes("step="));
    expect(steps).toEqual(
      [
        ["find", 5],
        ["find", 7],
        ["create", 5],
        ["create", 7],
        ["install", 5],
      ].map(([step, value]) => [`Concierge/room_step_ms service=concierge-test,step=${step}`, value]),
    );
  });

  it("continue on another line beyond CloudWatch's limit of values", async () => {
    await inRequest(() => {
      for (let at = 0; at < 250; at++) metrics.count("turn_ms", at);
    });
    expect(lines).toHaveLength(3);
    expect(found().map(([, value]) => value)).toEqual(Array.from({ length: 250 }, (_, at) => at));
  });

  it("are not mixed with those of concurrent work", async () => {
    await Promise.all(
      ["a", "b"].map((requestId) =>
        inContext({ requestId }, async () => {
          await Promise.resolve();
          metrics.count("stop_requested");
        }),
      ),
    );
    expect(lines.map((line) => JSON.parse(line).requestId)).toEqual(["a", "b"]);
  });

  it("are printed if the work fails, with the context as plain fields", async () => {
    const failing = inContext({ requestId: "request-1", function: "x" }, async () => {
      metrics.count("messages", 1, { function: "Worker" });
      learn({ taskId: "task_1" });
      throw new Error("it failed");
    });
    await expect(failing).rejects.toThrow("it failed");
    for (const { line, dimensions } of readMetrics(lines)) {
      expect(line).toMatchObject({ requestId: "request-1", taskId: "task_1", function: "Worker" });
      expect(Object.keys(dimensions)).not.toContain("requestId");
    }
    expect(found()).toHaveLength(2);
  });

  it("are printed at the deadline, and later counts at once", async () => {
    vi.useFakeTimers({ now: 1_800_000_000_000 });
    const { promise: never, resolve } = Promise.withResolvers<void>();
    const work = inContext(
      { requestId: "request-1" },
      async () => {
        metrics.count("stop_requested");
        expect(timeLeftMs()).toBe(1000);
        await never;
        expect(timeLeftMs()).toBe(0);
        metrics.count("http_errors");
      },
      Date.now() + 1000,
    );
    vi.advanceTimersByTime(999);
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(found()).toEqual([["Concierge/stop_requested service=concierge-test", 1]]);
    resolve();
    await work;
    expect(lines).toHaveLength(2);
    expect(JSON.parse(lines[1] ?? "")).toMatchObject({ requestId: "request-1", http_errors: 1 });
  });

  it("are printed at once after the work has ended, as in a stream", async () => {
    let later = () => {};
    await inRequest(() => {
      later = AsyncLocalStorage.bind(() => metrics.count("stop_requested"));
    });
    expect(lines).toEqual([]);
    later();
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ requestId: "request-1", stop_requested: 1 });
  });
});

it("the unit of every metric in the catalogue follows from its name", () => {
  for (const [name, { unit }] of Object.entries(catalogue))
    expect([name, unit]).toEqual([name, name.endsWith("_ms") ? "Milliseconds" : "Count"]);
});
