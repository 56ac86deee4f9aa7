import { describe, expect, it } from "vitest";
import { exhaust } from "./exhaustive.ts";
import { isLong, longTimeoutMs } from "./long.ts";
import { mutants } from "./mutants.ts";
import { open, type Scenario, scenarios, theRace } from "./scenarios.ts";

/** Scenarios that take minutes are for the long run. */
const isTried = ({ large, slow }: Scenario): boolean => isLong || !(large || slow);
const races = scenarios.filter(({ name }) => name.startsWith("stop, deadline, finalize"));

describe("in every order of steps", () => {
  it.each(scenarios.filter(isTried))(
    "$name: every invariant holds",
    { timeout: longTimeoutMs },
    async (scenario) => {
      const { violation, ends, outcomes } = await exhaust(scenario);
      expect(violation).toBeUndefined();
      expect(ends.size).toBeGreaterThan(2);
      // Each racer must win in some order: a racer that dropped out would break nothing.
      if (races.includes(scenario))
        expect([...outcomes].sort()).toEqual(["stopped", "succeeded", "timed_out"]);
    },
  );

  it.each(scenarios.filter((scenario) => !isTried(scenario)))("$name can be set up", async (scenario) => {
    const { scheduler } = await open(scenario);
    expect((await scheduler.runnable()).length).toBeGreaterThan(2);
  });
});

describe("without equivalent orders", () => {
  const few = scenarios.filter(
    ({ name }) => (isLong && name === theRace.name) || name.endsWith("from its claim on"),
  );

  it.each(few)("$name reaches the same ends", { timeout: longTimeoutMs }, async (scenario) => {
    const [short, long] = [await exhaust(scenario), await exhaust(scenario, { everyOrder: true })];
    expect([...short.ends].sort()).toEqual([...long.ends].sort());
    expect(short.states).toBeLessThan(long.states);
  });

  it("a skipped proof is found", async () => {
    const skipped = mutants.find(({ name }) => name.startsWith("the proof is skipped"));
    const { violation } = await exhaust(theRace, { mutant: skipped?.plant });
    expect(violation).toMatchObject({ invariant: 3 });
  });
});
