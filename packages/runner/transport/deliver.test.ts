import { expect, test } from "vitest";
import { createOutput } from "../output/output.ts";
import { createSpool } from "../output/spool.ts";
import { defaultTimings } from "../turn/config.ts";
import type { Answer, Client } from "./client.ts";
import { deliver } from "./deliver.ts";

const wait: Answer = { kind: "action", action: "wait" };
const accepted: Answer = { kind: "action", action: "continue" };
const stop: Answer = { kind: "action", action: "stop" };

/** Delivers a batch to a Concierge that gives these answers, and returns the pauses after them. */
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
    grantRequest: () => undefined,
    end: () => undefined,
    beat: () => ({ activity: "none" }),
    idle: async () => {
      output.write("stdout", Buffer.from("more"));
      output.end();
    },
    sleep: async (ms) => void pauses.push(ms),
    onAcknowledged() {},
    hasEnded: () => false,
    timings: defaultTimings,
  });
  return pauses;
}

test("while the turn is not recorded as running, retries come soon at first and then less often", async () => {
  expect(await pausesAfter(Array(8).fill(wait))).toEqual([5, 10, 20, 40, 80, 100, 100, 100]);
});

test("the pauses start over once Concierge has accepted a batch", async () => {
  expect(await pausesAfter([wait, wait, wait, accepted, wait, wait])).toEqual([5, 10, 20, 5, 10]);
});
