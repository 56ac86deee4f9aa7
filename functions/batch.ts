import type { SQSBatchResponse, SQSEvent } from "aws-lambda";

/** Works through a batch, each message for itself: only those that failed come back. */
export async function eachMessage(
  event: SQSEvent,
  work: (body: string) => Promise<void>,
): Promise<SQSBatchResponse> {
  const failed = await Promise.all(
    event.Records.map(async ({ messageId, body }) => {
      try {
        await work(body);
        return [];
      } catch (error) {
        console.error("message failed", error);
        return [{ itemIdentifier: messageId }];
      }
    }),
  );
  return { batchItemFailures: failed.flat() };
}
