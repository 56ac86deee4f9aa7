/**
 * What an SQS event source mapping makes of a handler's answer (`ReportBatchItemFailures`): nothing or an
 * empty list is success, an answer that cannot be understood fails the whole batch.
 */
export function failedMessages(answer: unknown, messageIds: readonly string[]): readonly string[] {
  if (answer === null || answer === undefined) return [];
  if (typeof answer !== "object" || Array.isArray(answer)) return messageIds;
  const failures = "batchItemFailures" in answer ? answer.batchItemFailures : null;
  if (failures === null || failures === undefined) return [];
  if (!Array.isArray(failures)) return messageIds;
  const failed: unknown[] = failures.map((failure) => failure?.itemIdentifier);
  return failed.every(isKnown) ? failed : messageIds;

  function isKnown(id: unknown): id is string {
    return typeof id === "string" && messageIds.includes(id);
  }
}
