import { catalogue } from "@concierge/core";
import { afterEach, expect, it, vi } from "vitest";
import { identityOf, readMetrics } from "../test/fixtures/emf.ts";
import { inContext } from "./context.ts";
import { createMetrics } from "./metrics.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

function printed(): string[] {
  const lines: string[] = [];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  return lines;
}

it("a count is there at once, for the service alone and for what it is by", () => {
  const lines = printed();
  createMetrics("test").count("room_ms", 12, { origin: "warm" });
  expect(lines).toHaveLength(1);
  const found = readMetrics(lines);
  expect(found.map(identityOf)).toEqual([
    "Concierge/room_ms service=concierge-test",
    "Concierge/room_ms origin=warm,service=concierge-test",
  ]);
  expect(found[0]).toMatchObject({ unit: "Milliseconds", value: 12 });
});

it("what is counted next has nothing of what was counted before", () => {
  const metrics = createMetrics("test");
  const lines = printed();
  metrics.count("room_given", 1, { origin: "cold" });
  metrics.count("stop_requested");
  metrics.count("stop_requested");
  expect(readMetrics(lines.slice(1)).map(({ value, ...datum }) => [identityOf(datum), value])).toEqual([
    ["Concierge/stop_requested service=concierge-test", 1],
    ["Concierge/stop_requested service=concierge-test", 1],
  ]);
});

it("the line has what is known of the work, which is no dimension", async () => {
  const lines = printed();
  await inContext({ requestId: "request-1", taskId: "task_1", function: "x" }, async () =>
    createMetrics("test").count("messages", 1, { function: "Worker" }),
  );
  const emf = lines.filter((line) => line.includes("_aws"));
  for (const { line, dimensions } of readMetrics(emf)) {
    expect(line).toMatchObject({ requestId: "request-1", taskId: "task_1" });
    expect(dimensions.service).toBe("concierge-test");
    expect(Object.keys(dimensions)).not.toContain("requestId");
    expect(line.function).toBe("Worker");
  }
});

it("units are those of the catalogue, read off the names", () => {
  for (const [name, { unit }] of Object.entries(catalogue))
    expect([name, unit]).toEqual([name, name.endsWith("_ms") ? "Milliseconds" : "Count"]);
});
