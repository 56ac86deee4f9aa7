import { type Timer, timerKinds, type WorkMessage, webhookEventSchema } from "@concierge/core";
import * as z from "zod/mini";

const turn = { taskId: z.string(), turn: z.int().check(z.positive()) };
const session = { userId: z.string(), sessionKey: z.string() };

const webhookMessageSchema = z.object({
  kind: z.literal("webhook"),
  ...turn,
  event: webhookEventSchema,
  attempt: z.optional(z.int()),
});

/** One schema per kind. A kind without one does not compile. */
const workMessageSchemas = {
  provision: z.object({ kind: z.literal("provision"), ...turn, attempt: z.optional(z.int()) }),
  prepare: z.object({ kind: z.literal("prepare"), ...session, attempt: z.optional(z.int()) }),
  environment: z.object({ kind: z.literal("environment"), ...session, epoch: z.int().check(z.positive()) }),
  ended: z.object({ kind: z.literal("ended"), ...turn }),
  release: z.object({ kind: z.literal("release"), ...session, epoch: z.int().check(z.positive()) }),
  forget: z.object({ kind: z.literal("forget"), userId: z.string() }),
  base: z.object({ kind: z.literal("base"), asked: z.optional(z.boolean()) }),
  warm: z.object({ kind: z.literal("warm") }),
  webhook: webhookMessageSchema,
} satisfies Record<WorkMessage["kind"], z.ZodMiniType>;

const { provision, prepare, environment, ended, release, forget, base, warm, webhook } = workMessageSchemas;
/** Unknown fields are dropped: during a deploy the next version may send more. */
const workMessageSchema = z.discriminatedUnion("kind", [
  provision,
  prepare,
  environment,
  ended,
  release,
  forget,
  base,
  warm,
  webhook,
  /** The previous version's message for the end of a turn. */
  z.pipe(
    z.object({ kind: z.literal("usage"), ...turn }),
    z.transform(({ taskId, turn: of }) => ({ kind: "ended" as const, taskId, turn: of })),
  ),
]);

/** Throws if the body is not a known message, so that the message becomes a dead letter. */
export function parseWorkMessage(body: string): WorkMessage {
  return workMessageSchema.parse(JSON.parse(body)) as WorkMessage;
}

export type WebhookMessage = Extract<WorkMessage, { kind: "webhook" }>;

export function parseWebhookMessage(body: string): WebhookMessage {
  return webhookMessageSchema.parse(JSON.parse(body)) as WebhookMessage;
}

const timerSchema = z.object({ kind: z.enum(timerKinds), ...turn });

export function parseTimer(body: string): Timer {
  return timerSchema.parse(JSON.parse(body));
}
