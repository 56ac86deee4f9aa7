import { deliverWebhook } from "@concierge/core/webhook/deliver";
import { parseWebhookMessage } from "@concierge/queue";
import { createWebhooks } from "@concierge/webhook";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { eachMessage } from "./batch.ts";
import { composeDeps } from "./compose.ts";
import { learn } from "./context.ts";

const composed = await composeDeps();
const deps = { ...composed, webhooks: createWebhooks(composed.config) };

export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  return await eachMessage(event, context, { name: "Webhook", metrics: deps.metrics, work });
}

async function work(body: string): Promise<void> {
  const message = parseWebhookMessage(body);
  const { taskId, turn } = message;
  learn({ work: "webhook", taskId, turn });
  await deliverWebhook(deps, message);
}
