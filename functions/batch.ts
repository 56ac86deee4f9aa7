import type { Metrics } from "@concierge/core";
import { requestIdOf, traceparentOf } from "@concierge/queue";
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { currentContext, deadlineOf, inContext, learn } from "./context.ts";
import { log } from "./telemetry/log.ts";
import { flushTelemetry, inSpan, parseTraceparent, recordSpan } from "./telemetry/trace.ts";

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
            await inSpan(
              { name, kind: "consumer", parent: queuedSpan(name, record, startedAt) },
              async (end) => {
                await work(record.body);
                end({ attributes: spanAttributes() });
              },
            );
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
  await flushTelemetry();
  return { batchItemFailures: failed.flat() };
}

/** The time in the queue, between the sender's span and ours. */
function queuedSpan(name: string, record: SQSRecord, receivedAt: number): string | undefined {
  const parent = parseTraceparent(traceparentOf(record));
  const startMs = Math.min(Number(record.attributes.SentTimestamp) || receivedAt, receivedAt);
  return recordSpan({ name: `${name} queue`, kind: "producer", parent, startMs, endMs: receivedAt });
}

/** Which work it was. Ids only. */
function spanAttributes(): Record<string, string | number> {
  const { work, timer, taskId, turn } = currentContext();
  const known = { "concierge.work": work ?? timer, "concierge.task": taskId, "concierge.turn": turn };
  const set = Object.entries(known).filter(([, value]) => value !== undefined);
  return Object.fromEntries(set) as Record<string, string | number>;
}
