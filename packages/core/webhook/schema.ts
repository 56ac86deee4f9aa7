import * as z from "zod";
import { resultSchema, taskErrorSchema, terminalStatuses, usageSchema } from "../task/schema.ts";

/** What a receiver is told when a turn has ended. */
export const webhookEventSchema = z
  .lazy(() =>
    z.object({
      type: z.enum(["task.succeeded", "task.failed", "task.stopped", "task.timed_out"]),
      timestamp: z.iso.datetime(),
      data: z.object({
        taskId: z.string(),
        turn: z.int(),
        status: z.enum(terminalStatuses),
        sessionKey: z.string(),
        result: resultSchema.nullable(),
        error: taskErrorSchema.nullable(),
        usage: usageSchema,
        metadata: z.record(z.string(), z.string()),
      }),
    }),
  )
  .meta({ id: "WebhookEvent" });

export type WebhookEvent = z.infer<typeof webhookEventSchema>;
