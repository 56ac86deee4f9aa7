import { AsyncLocalStorage } from "node:async_hooks";
import { catalogue } from "@concierge/core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { identityOf, readMetrics } from "../test/fixtures/emf.ts";
import { inContext, learn, timeLeftMs } from "./context.ts";
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

/** What CloudWatch has of it, each value by its name. */
const found = () => readMetrics(lines).map((datum) => [identityOf(datum), datum.value]);
const inRequest = (work: () => void | Promise<void>) =>
  inContext({ requestId: "request-1" }, async () => await work());

it("what is counted outside of any work is there at once, for the service and for what it is by", () => {
  metrics.count("room_ms", 12, { origin: "warm" });
  expect(lines).toHaveLength(1);
  expect(found()).toEqual([
    ["Concierge/room_ms service=concierge-test", 12],
    ["Concierge/room_ms origin=warm,service=concierge-test", 12],
  ]);
  expect(readMetrics(lines)[0]).toMatchObject({ unit: "Milliseconds" });
});

describe("what is counted in one invocation", () => {
  it("is one line, whatever it is by, and a value more is a value more", async () => {
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

  it("is as many lines as one dimension has values, and no more", async () => {
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

  it("is a line more when CloudWatch takes no more values in one", async () => {
    await inRequest(() => {
      for (let at = 0; at < 250; at++) metrics.count("turn_ms", at);
    });
    expect(lines).toHaveLength(3);
    expect(found().map(([, value]) => value)).toEqual(Array.from({ length: 250 }, (_, at) => at));
  });

  it("is not mixed with what another counts at the same time", async () => {
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

  it("is printed when the work fails, with all that was learnt of it, which is no dimension", async () => {
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

  it("is printed before the function runs out of time, and what is counted after that at once", async () => {
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

  it("and what is counted after its end, as in a stream that goes on, is printed at once", async () => {
    let later = () => {};
    await inRequest(() => {
      later = AsyncLocalStorage.bind(() => metrics.count("stop_requested"));
    });
    expect(lines).toEqual([]);
    later();
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ requestId: "request-1", stop_requested: 1 });
  });
});

it("units are those of the catalogue, read off the names", () => {
  for (const [name, { unit }] of Object.entries(catalogue))
    expect([name, unit]).toEqual([name, name.endsWith("_ms") ? "Milliseconds" : "Count"]);
});
