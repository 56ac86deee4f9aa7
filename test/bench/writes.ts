import type { Benchmark, Figure } from "./harness.ts";
import { countRequests } from "./verbs.ts";

/** Every state change is one write on one item. An end also marks the session idle. */
const atMost: Readonly<Record<string, number>> = {
  // The lease, the task, and the count against the user's limits.
  start: 3,
  "a batch of output": 2,
  "an end, by the runner": 2,
  continue: 3,
  "stop, of a running turn": 3,
  "stop, of a stopped one": 0,
};

export const writes: Benchmark = {
  name: "writes",
  about: "requests to write that reach the DynamoDB engine, by verb",
  async run() {
    const counted = Object.entries(await countRequests());
    return counted.map(([what, { writes: value }]): Figure => {
      const bound = atMost[what];
      const target = bound !== undefined && { target: { of: "value", atMost: bound, firm: true } as const };
      return { what, unit: "writes", value, ...target };
    });
  },
};
