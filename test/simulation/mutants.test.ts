import { describe, expect, it } from "vitest";
import { exhaust } from "./exhaustive.ts";
import { type NamedMutant, mutants as oldMutants } from "./mutants.ts";
import { edgeMutants } from "./mutants-edges.ts";
import { simulate } from "./simulate.ts";
import type { Violation } from "./watch.ts";

/** `rare.from` only saves time: a change of the core moves the seeds that find a mutant. */
const seedsMax = 2_000;
const mutants = [...oldMutants, ...edgeMutants];

describe("the simulation finds the bug that", () => {
  it.each(mutants)("$name", { timeout: 300_000 }, async (mutant) => {
    const { rare } = mutant;
    const found =
      rare && "orders" in rare
        ? (await exhaust(rare.orders, { mutant: mutant.plant })).violation
        : await trySeeds(mutant, rare?.from ?? 1);
    expect(mutant.breaks).toContain(found?.invariant);
  });
});

async function trySeeds({ plant, isLong }: NamedMutant, from: number): Promise<Violation | undefined> {
  for (let seed = from; seed < from + seedsMax; seed++) {
    const [found] = (await simulate({ seed, isLong, mutant: plant() })).violations;
    if (found) return found;
  }
  return undefined;
}
