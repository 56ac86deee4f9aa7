import { z } from "zod";

export const streams = ["stdout", "stderr"] as const;

/** A batch of output as the runner sent it, bytes and all. */
export interface OutputBatch {
  kind: "output";
  turn: number;
  seq: number;
  chunks: { stream: (typeof streams)[number]; at: number; data: Uint8Array }[];
}

/** What a worker says while it provisions. */
export interface ProgressRecord {
  kind: "progress";
  turn: number;
  seq: number;
  at: number;
  step: string;
  detail: string;
}

export type EventRecord = OutputBatch | ProgressRecord;

const event = { cursor: z.string(), at: z.iso.datetime(), turn: z.int().positive() };

export const eventSchema = z
  .discriminatedUnion("type", [
    z.object({ ...event, type: z.literal("status"), status: z.string(), note: z.string().optional() }),
    z.object({ ...event, type: z.literal("progress"), step: z.string(), detail: z.string() }),
    z.object({ ...event, type: z.literal("output"), stream: z.enum(streams), text: z.string() }),
    z.object({ ...event, type: z.literal("notice"), code: z.string(), detail: z.string() }),
  ])
  .meta({ id: "Event" });

export type TaskEvent = z.infer<typeof eventSchema>;
