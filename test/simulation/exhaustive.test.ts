import { describe, expect, it } from "vitest";
import { exhaust } from "./exhaustive.ts";
import { mutants } from "./mutants.ts";
import { scenarios, theRace } from "./scenarios.ts";

describe("in every order of their steps", () => {
  const small = scenarios.filter(({ large }) => !large);

  it.each(small)("$name keep the invariants", { timeout: 240_000 }, async (scenario) => {
    const { violation, interleavings } = await exhaust(scenario);
    expect(violation).toBeUndefined();
    expect(interleavings).toBeGreaterThan(50n);
  });

  it("a proof that is skipped is found", async () => {
    const skipped = mutants.find(({ name }) => name.startsWith("the proof is skipped"));
    const { violation } = await exhaust(theRace, skipped?.plant);
    expect(violation).toMatchObject({ invariant: 3 });
  });
});
