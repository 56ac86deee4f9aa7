/** Randomness that a seed replays: the same numbers in the same order on every machine. */
export interface Random {
  /** From 0 to 1, excluding 1. */
  next(): number;
  chance(probability: number): boolean;
  /** An integer, both ends included. */
  between(min: number, max: number): number;
  pick<T>(items: readonly T[]): T;
}

/** Mulberry32 over a mixed seed, so that neighbouring seeds have nothing in common. */
export function createRandom(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;

  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));

  return {
    next,
    between,
    chance: (probability) => next() < probability,
    pick(items) {
      const item = items[between(0, items.length - 1)];
      if (item === undefined) throw new Error("there is nothing to pick from");
      return item;
    },
  };
}
