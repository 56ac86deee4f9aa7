import * as z from "zod/mini";

/** The counters of a user's day. Each only grows. */
export type Counters = Readonly<Record<string, number>>;

export interface UsageRecord {
  day: string;
  userId: string;
  counters: Counters;
}

const amount = z.lazy(() =>
  z.object({
    vcpuSeconds: z.number(),
    gbHours: z.number(),
    creations: z.int(),
    usd: z.number(),
  }),
);

export const dayCostSchema = z.lazy(() =>
  z.object({
    day: z.iso.date(),
    userId: z.string(),
    turns: z.int(),
    /** Turns by origin of their sandbox. */
    origins: z.record(z.string(), z.int()),
    used: amount,
    /** The same turns with one sandbox per message. */
    perMessage: amount,
    /** The share of the sandbox-per-message vCPU-seconds that was saved. */
    savedRatio: z.number(),
  }),
);

export const costsSchema = z
  .lazy(() =>
    z.object({
      from: z.iso.date(),
      to: z.iso.date(),
      items: z.array(dayCostSchema),
      total: z.object({ turns: z.int(), used: amount, perMessage: amount, savedRatio: z.number() }),
      /** The prices of the listed days. */
      prices: z.array(
        z.object({
          from: z.iso.date(),
          source: z.string(),
          vcpuSecondUsd: z.number(),
          gbHourUsd: z.number(),
          creationUsd: z.number(),
        }),
      ),
    }),
  )
  .register(z.globalRegistry, { id: "Costs" });

export type Amount = z.infer<typeof amount>;
export type DayCost = z.infer<typeof dayCostSchema>;
export type Costs = z.infer<typeof costsSchema>;
