import { expect, test } from "vitest";
import type { Answer, Client } from "./client.ts";
import { DEFAULT_TIMINGS } from "./config.ts";
import { deliver } from "./deliver.ts";
import { createOutput } from "./output.ts";
import { createSpool } from "./spool.ts";

const wait: Answer = { kind: "action", action: "wait" };
const taken: Answer = { kind: "action", action: "continue" };
const stop: Answer = { kind: "action", action: "stop" };

/** Delivers one batch to a Concierge that gives these answers; how long it paused after each. */
async function pausesAfter(answers: Answer[]): Promise<number[]> {
  const pauses: number[] = [];
  const client: Client = { connect() {}, post: async () => answers.shift() ?? stop };
  const output = createOutput({
    secrets: [],
    maxOutputBytes: 1_000,
    timings: { batchMs: 1 },
    spool: createSpool("/nowhere/spool", 1_000),
    now: () => 0,
  });
  output.write("stdout", Buffer.from("hello"));
  await deliver({
    output,
    client,
    request: () => undefined,
    end: () => undefined,
    beat: () => ({ activity: "none" }),
    idle: async () => {
      output.write("stdout", Buffer.from("more"));
      output.end();
    },
    sleep: async (ms) => void pauses.push(ms),
    onAcknowledged() {},
    isOver: () => false,
    timings: DEFAULT_TIMINGS,
  });
  return pauses;
}

test("while the turn is not recorded as running it is asked again soon at first, and then ever less often", async () => {
  expect(await pausesAfter(Array(8).fill(wait))).toEqual([5, 10, 20, 40, 80, 100, 100, 100]);
});

test("what it has waited before does not count once Concierge has taken something", async () => {
  expect(await pausesAfter([wait, wait, wait, taken, wait, wait])).toEqual([5, 10, 20, 5, 10]);
});
