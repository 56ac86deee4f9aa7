export interface Price {
  /** The first day it applies to. */
  from: string;
  source: string;
  vcpuSecondUsd: number;
  gbHourUsd: number;
  creationUsd: number;
}

/** All prices, oldest first. A new price is a new line, so a past day keeps its price. */
export const prices: readonly Price[] = [
  {
    from: "2025-11-03",
    source: "the first estimate: a vCPU-second, nothing else",
    vcpuSecondUsd: 0.00001,
    gbHourUsd: 0,
    creationUsd: 0,
  },
  {
    from: "2026-11-01",
    source: "Vercel Sandbox, Pro: active CPU, provisioned memory, creations",
    vcpuSecondUsd: 0.128 / 3600,
    gbHourUsd: 0.0212,
    creationUsd: 0.6 / 1_000_000,
  },
];

export function priceOn(day: string): Price {
  const [first] = prices;
  const price = prices.findLast(({ from }) => from <= day) ?? first;
  if (!price) throw new Error("there is no price at all");
  return price;
}
