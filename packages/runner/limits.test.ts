import { expect, test } from "vitest";
import { decideLimit, type LimitState } from "./limits.ts";

const limits = { maxDurationMs: 10_000, inactivityMs: 1_000, activityCapMs: 3_000 };
const talking: LimitState = {
  nowMs: 5_000,
  quietSinceMs: 4_800,
  deliveredMs: 0,
  paused: false,
  activity: "none",
};

test.each<[string, Partial<LimitState>, ReturnType<typeof decideLimit>]>([
  ["that talks is looked at when its silence could be too long", {}, { checkInMs: 800 }],
  ["near its deadline is looked at then", { nowMs: 9_900, quietSinceMs: 9_800 }, { checkInMs: 100 }],
  ["at its deadline is ended", { nowMs: 10_000, quietSinceMs: 9_999 }, { end: "deadline" }],
  ["that is silent too long is ended", { quietSinceMs: 4_000 }, { end: "inactivity" }],
  [
    "whose both limits are over has met its deadline",
    { nowMs: 11_000, quietSinceMs: 0 },
    { end: "deadline" },
  ],
  ["that waits for its model may be silent", { quietSinceMs: 2_001, activity: "model" }, { checkInMs: 1 }],
  ["that runs a tool may be silent", { quietSinceMs: 3_500, activity: "tool" }, { checkInMs: 1_000 }],
  ["whose model hangs ends at the cap", { quietSinceMs: 2_000, activity: "model" }, { end: "inactivity" }],
  ["whose tool hangs ends at the cap", { quietSinceMs: 2_000, activity: "tool" }, { end: "inactivity" }],
  [
    "whose pipes are not read is not silent while some output is taken",
    { quietSinceMs: 0, deliveredMs: 3_000, paused: true },
    { checkInMs: 1_000 },
  ],
  [
    "whose pipes are not read since less than the cap is not silent",
    { quietSinceMs: 2_500, paused: true },
    { checkInMs: 500 },
  ],
  [
    "whose output cannot be delivered ends at the cap",
    { quietSinceMs: 1_000, deliveredMs: 2_000, paused: true },
    { end: "inactivity" },
  ],
  ["that runs a tool still has a deadline", { nowMs: 10_001, activity: "tool" }, { end: "deadline" }],
])("an agent %s", (_, change, expected) => {
  expect(decideLimit({ ...talking, ...change }, limits)).toEqual(expected);
});

test("a longer time of silence than the cap holds for an agent at work, too", () => {
  const longer = { ...limits, inactivityMs: 4_000 };
  expect(decideLimit({ ...talking, quietSinceMs: 1_500, activity: "tool" }, longer)).toEqual({
    checkInMs: 500,
  });
});
