import { type AgentEvent, streams } from "@concierge/protocol";
import { agentEventSchema } from "@concierge/protocol/schemas";
import * as z from "zod/mini";

export interface StreamChunk {
  stream: (typeof streams)[number];
  at: number;
  data: Uint8Array;
}

export interface AgentChunk {
  at: number;
  agent: AgentEvent;
}

/** A batch as the runner sent it: raw output and agent events, in order. */
export interface OutputBatch {
  kind: "output";
  turn: number;
  seq: number;
  chunks: (StreamChunk | AgentChunk)[];
}

/** A worker's progress while it provisions. */
export interface ProgressRecord {
  kind: "progress";
  turn: number;
  seq: number;
  at: number;
  step: string;
  detail: string;
}

export type EventRecord = OutputBatch | ProgressRecord;

const event = { cursor: z.string(), at: z.iso.datetime(), turn: z.int().check(z.positive()) };

export const eventSchema = z
  .lazy(() =>
    z.discriminatedUnion("type", [
      z.object({ ...event, type: z.literal("status"), status: z.string(), note: z.optional(z.string()) }),
      z.object({ ...event, type: z.literal("progress"), step: z.string(), detail: z.string() }),
      z.object({ ...event, type: z.literal("output"), stream: z.enum(streams), text: z.string() }),
      z.object({ ...event, type: z.literal("agent"), agent: agentEventSchema }),
      z.object({ ...event, type: z.literal("notice"), code: z.string(), detail: z.string() }),
    ]),
  )
  .register(z.globalRegistry, { id: "Event" });

export type TaskEvent = z.infer<typeof eventSchema>;
