import type { Metrics } from "@concierge/core";
import { requestIdOf } from "@concierge/queue";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { deadlineOf, inContext, learn } from "./context.ts";
import { log } from "./telemetry/log.ts";

interface Work {
  name: "Worker" | "Timer" | "Webhook";
  metrics: Metrics;
  work: (body: string) => Promise<void>;
}

/** Handles each message of a batch separately. Only failed ones are returned to the queue. */
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
