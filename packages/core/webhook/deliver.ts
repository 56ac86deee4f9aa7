import { cutTo } from "../bounds.ts";
import type { Deps, WebhookDeps } from "../deps.ts";
import {
  noticeDetailMaxBytes,
  noticesMax,
  webhookMaxMs,
  webhookRetryMs,
  webhooksPerUser,
  webhookWaitMs,
} from "../limits.ts";
import { when } from "../task/guards.ts";
import type { Task } from "../task/schema.ts";
import { isTerminal } from "../task/schema.ts";
import { addUsed } from "../task/view.ts";
import { takeLeaseHold } from "../users/holds.ts";
import type { WebhookEvent } from "./schema.ts";
import { webhookSecretsOf } from "./secret.ts";

/** Queues the webhook of an ended turn. */
export async function announce({ work }: Deps, task: Task): Promise<void> {
  const event = task.webhook && eventOf(task);
  if (event)
    await work.send({ kind: "webhook", taskId: task.id, turn: task.turn, event }, undefined, task.userId);
}

/**
 * Delivers a webhook, or retries later. A user has a limited number of deliveries under way at once, so that slow
 * receivers of one user do not delay the others' webhooks; a delivery beyond it waits and does not count as an attempt. If the receiver stays unreachable, the message becomes a dead letter and the
 * task gets a notice. If the address is forbidden or the receiver refuses, the task gets a notice only.
 */
export async function deliverWebhook(
  deps: WebhookDeps,
  message: { taskId: string; turn: number; event: WebhookEvent; attempt?: number | undefined },
): Promise<void> {
  const { store, webhooks, work, metrics } = deps;
  const { taskId, turn, event, attempt = 0 } = message;
  const task = await store.getTask(taskId);
  if (!task?.webhook) return;
  const { userId } = task;
  const hold = await takeLeaseHold(deps, userId, "webhooks", {
    id: `${taskId}_${turn}`,
    untilAt: deps.clock.now() + webhookMaxMs,
    max: { all: webhooksPerUser },
  });
  if ("full" in hold) {
    metrics.count("webhook_delayed");
    await work.send({ kind: "webhook", taskId, turn, event, attempt }, webhookWaitMs, userId);
    return;
  }
  const [secret = "", ...otherSecrets] = await webhookSecretsOf(deps, userId);
  const outcome = await webhooks
    .send({
      url: task.webhook.url,
      // The same for each retry, so the receiver can recognise it.
      id: `${taskId}-${turn}`,
      at: deps.clock.now(),
      secret,
      ...(otherSecrets.length > 0 && { otherSecrets }),
      body: JSON.stringify(event),
    })
    .finally(() => hold.release());
  metrics.count(`webhook_${outcome.kind}`);
  if (outcome.kind === "delivered") return;
  const delayMs = webhookRetryMs[attempt];
  if (outcome.kind === "failed" && delayMs !== undefined) {
    await work.send({ kind: "webhook", taskId, turn, event, attempt: attempt + 1 }, delayMs, userId);
    return;
  }
  await tell(deps, task, turn, outcome.detail);
  // A message that keeps failing becomes a dead letter; each of its last tries may still succeed.
  if (outcome.kind === "failed") throw new Error(`webhook of ${taskId}/${turn}: ${outcome.detail}`);
}

/**
 * At most one notice per turn, because the last tries come more than once. A task keeps a limited number of notices.
 */
async function tell({ store, clock }: WebhookDeps, task: Task, turn: number, detail: string): Promise<void> {
  const code = "webhook_failed";
  const isTold = task.notices.some((notice) => notice.code === code && notice.turn === turn);
  if (isTold || task.notices.length >= noticesMax) return;
  const text = cutTo(noticeDetailMaxBytes, `The webhook could not be delivered: ${detail}.`);
  const notice = { code, detail: text, turn, at: clock.now() };
  await store.changeTask(task.id, when.any(task.turn), { notice });
}

function eventOf(task: Task): WebhookEvent | undefined {
  const { state, id: taskId, turn, sessionKey, metadata } = task;
  if (!isTerminal(state.status) || !("endedAt" in state)) return undefined;
  return {
    type: `task.${state.status}`,
    timestamp: new Date(state.endedAt).toISOString(),
    data: {
      taskId,
      turn,
      status: state.status,
      sessionKey,
      result: state.result,
      error: "error" in state ? state.error : null,
      usage: addUsed(task.usage, task.pastUsage),
      metadata,
    },
  };
}
