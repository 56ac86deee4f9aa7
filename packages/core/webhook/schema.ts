import * as z from "zod/mini";
import { resultSchema, taskErrorSchema, terminalStatuses, usageSchema } from "../task/schema.ts";

/** What a receiver gets when a turn has ended. */
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
        result: z.nullable(resultSchema),
        error: z.nullable(taskErrorSchema),
        usage: usageSchema,
        metadata: z.record(z.string(), z.string()),
      }),
    }),
  )
  .register(z.globalRegistry, { id: "WebhookEvent" });

export type WebhookEvent = z.infer<typeof webhookEventSchema>;

/** How often a user's webhook secret was replaced, and until when the one before is also used. */
export interface WebhookSecretState {
  version: number;
  previousUntil: number;
}
