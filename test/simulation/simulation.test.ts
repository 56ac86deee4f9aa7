import { describe, expect, it } from "vitest";
import { isLong, longTimeoutMs } from "./long.ts";
import { simulate } from "./simulate.ts";

const seeds = isLong ? 2000 : 100;

describe("the core under a seeded scheduler", () => {
  it(`keeps every invariant in ${seeds} histories, and settles`, { timeout: longTimeoutMs }, async () => {
    const sum = { turns: 0, pushes: 0, sandboxes: 0 };
    for (let seed = 1; seed <= seeds; seed++) {
      const { violations, turns, pushes, sandboxes } = await simulate({ seed });
      expect(violations, `npm run simulate -- --seed ${seed}`).toEqual([]);
      sum.turns += turns;
      sum.pushes += pushes;
      sum.sandboxes += sandboxes;
    }
    // A history in which nothing happens would keep every invariant too.
    expect(sum.turns).toBeGreaterThan(5 * seeds);
    expect(sum.sandboxes).toBeGreaterThan(3 * seeds);
    expect(sum.pushes).toBeGreaterThan(seeds / 2);
  });

  it("takes the same steps at the same times when a seed is run again, and others for another seed", async () => {
    const [first, again, other] = [
      await simulate({ seed: 42 }),
      await simulate({ seed: 42 }),
      await simulate({ seed: 43 }),
    ];
    expect(again).toEqual(first);
    expect(other.hash).not.toBe(first.hash);
  });
});
