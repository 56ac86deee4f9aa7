import type { Metrics } from "@concierge/core";
import { requestIdOf } from "@concierge/queue";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { deadlineOf, inContext, learn } from "./context.ts";
import { log } from "./log.ts";

interface Work {
  name: "Worker" | "Timer" | "Webhook";
  metrics: Metrics;
  work: (body: string) => Promise<void>;
}

/** Works through a batch, each message for itself: only those that failed come back. */
export async function eachMessage(
  event: SQSEvent,
  context: Context,
  { name, metrics, work }: Work,
): Promise<SQSBatchResponse> {
  const deadlineAt = deadlineOf(context);
  const failed = await Promise.all(
    event.Records.map((record) =>
      inContext(
        { requestId: requestIdOf(record) ?? record.messageId },
        async () => {
          const startedAt = Date.now();
          try {
            await work(record.body);
            return [];
          } catch (error) {
            log.error("message failed", error);
            metrics.count("message_errors", 1, { function: name });
            return [{ itemIdentifier: record.messageId }];
          } finally {
            const receives = record.attributes.ApproximateReceiveCount;
            learn({ receives, durationMs: Date.now() - startedAt });
            metrics.count("messages", 1, { function: name });
          }
        },
        deadlineAt,
      ),
    ),
  );
  return { batchItemFailures: failed.flat() };
}
