import { expect, test } from "vitest";
import { decideLimit, type LimitState } from "./limits.ts";

const limits = { maxDurationMs: 10_000, inactivityMs: 1_000, activityCapMs: 3_000 };
const writing: LimitState = {
  nowMs: 5_000,
  quietSinceMs: 4_800,
  deliveredMs: 0,
  paused: false,
  activity: "none",
};

test.each<[string, Partial<LimitState>, ReturnType<typeof decideLimit>]>([
  ["that writes output is checked when its silence could be too long", {}, { checkInMs: 800 }],
  ["near its deadline is checked at the deadline", { nowMs: 9_900, quietSinceMs: 9_800 }, { checkInMs: 100 }],
  ["at its deadline is ended", { nowMs: 10_000, quietSinceMs: 9_999 }, { end: "deadline" }],
  ["that is silent for too long is ended", { quietSinceMs: 4_000 }, { end: "inactivity" }],
  ["beyond both limits has reached its deadline", { nowMs: 11_000, quietSinceMs: 0 }, { end: "deadline" }],
  ["that waits for its model may be silent", { quietSinceMs: 2_001, activity: "model" }, { checkInMs: 1 }],
  ["that runs a tool may be silent", { quietSinceMs: 3_500, activity: "tool" }, { checkInMs: 1_000 }],
  [
    "whose model hangs is ended at the cap",
    { quietSinceMs: 2_000, activity: "model" },
    { end: "inactivity" },
  ],
  ["whose tool hangs is ended at the cap", { quietSinceMs: 2_000, activity: "tool" }, { end: "inactivity" }],
  [
    "that is paused is not silent while output is being accepted",
    { quietSinceMs: 0, deliveredMs: 3_000, paused: true },
    { checkInMs: 1_000 },
  ],
  [
    "that is paused for less than the cap is not silent",
    { quietSinceMs: 2_500, paused: true },
    { checkInMs: 500 },
  ],
  [
    "whose output cannot be delivered is ended at the cap",
    { quietSinceMs: 1_000, deliveredMs: 2_000, paused: true },
    { end: "inactivity" },
  ],
  ["that runs a tool still has a deadline", { nowMs: 10_001, activity: "tool" }, { end: "deadline" }],
])("an agent %s", (_, change, expected) => {
  expect(decideLimit({ ...writing, ...change }, limits)).toEqual(expected);
});

test("an inactivity limit above the cap also applies to a working agent", () => {
  const longer = { ...limits, inactivityMs: 4_000 };
  expect(decideLimit({ ...writing, quietSinceMs: 1_500, activity: "tool" }, longer)).toEqual({
    checkInMs: 500,
  });
});
