import { type LaunchConfig, runnerExit, variables } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FakeConcierge } from "./testing/concierge.ts";
import { type Bundle, bundleRunner, Turn } from "./testing/runner.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

/** A turn that leaves a process, then a second one in the same sandbox. */
async function runTwo(second: (first: LaunchConfig) => Partial<LaunchConfig>) {
  const sandbox = { variables: { [variables.processMark]: `sandbox-${crypto.randomUUID()}` } };
  await using before = await FakeConcierge.start();
  await using first = new Turn(bundle, before, "sleep 300 > /dev/null 2>&1 &", sandbox);
  expect(await first.launch().exited).toBe(runnerExit.done);
  expect(first.processes()).toHaveLength(1);

  await using concierge = await FakeConcierge.start();
  await using next = new Turn(bundle, concierge, "true", { ...sandbox, ...second(first.config) });
  expect(await next.launch().exited).toBe(runnerExit.done);
  const { taskId, turn } = first.config;
  const [pid] = first.processes();
  return { end: concierge.end, pid, left: { program: "sleep", taskId, turn } };
}

describe("what an earlier turn left running", () => {
  test("is reported and kept for the same task", async () => {
    const { end, pid, left } = await runTwo(({ taskId }) => ({ taskId, turn: 2 }));
    expect(pid).toBeDefined();
    expect(end).toMatchObject({ leftovers: [{ ...left, pid, ended: false }] });
  });

  test("is reported and ended for another task", async () => {
    const { end, pid, left } = await runTwo(() => ({}));
    expect(pid).toBeUndefined();
    expect(end).toMatchObject({ leftovers: [{ ...left, ended: true }] });
  });

  test("is kept for another task that says so", async () => {
    const { end, pid, left } = await runTwo(() => ({ leftovers: "keep" }));
    expect(end).toMatchObject({ leftovers: [{ ...left, pid, ended: false }] });
  });

  test("is ended for the same task that says so", async () => {
    const { end, pid } = await runTwo(({ taskId }) => ({ taskId, turn: 2, leftovers: "end" }));
    expect(pid).toBeUndefined();
    expect(end).toMatchObject({ leftovers: [{ ended: true }] });
  });

  test("is not looked for in another sandbox", async () => {
    await using before = await FakeConcierge.start();
    await using first = new Turn(bundle, before, "sleep 300 > /dev/null 2>&1 &");
    await first.launch().exited;
    await using concierge = await FakeConcierge.start();
    await using other = new Turn(bundle, concierge, "true");
    await other.launch().exited;
    expect(concierge.end).not.toHaveProperty("leftovers");
    expect(first.processes()).toHaveLength(1);
  });
});
