import * as z from "zod/mini";
import type { Counters } from "../usage/schema.ts";

export const windowHours = { "1h": 1, "24h": 24, "7d": 168 } as const;
export const windows = ["1h", "24h", "7d"] as const;
export type Window = keyof typeof windowHours;

export const hourMs = 3_600_000;

/** The counters of one clock hour (UTC). */
export interface HourCounters {
  /** `00` to `23`. */
  hour: string;
  counters: Counters;
}

export function hourOf(at: number): { day: string; hour: string } {
  const text = new Date(at).toISOString();
  return { day: text.slice(0, 10), hour: text.slice(11, 13) };
}

export const metricsSchema = z
  .lazy(() =>
    z.object({
      window: z.enum(windows),
      /** The first clock hour that is counted, and now. */
      from: z.iso.datetime(),
      to: z.iso.datetime(),
      items: z.array(
        z.object({
          name: z.string(),
          description: z.string(),
          value: z.nullable(z.number()),
          unit: z.string(),
          target: z.nullable(z.object({ op: z.enum([">=", "<="]), value: z.number() })),
          met: z.nullable(z.boolean()),
          /** How many turns, stops or probes the value is from. */
          samples: z.number(),
        }),
      ),
    }),
  )
  .register(z.globalRegistry, { id: "Metrics" });

export type MetricsView = z.infer<typeof metricsSchema>;
