/**
 * Interprets a handler's result as an SQS event source mapping does (`ReportBatchItemFailures`): no list or an empty one
 * is success; an invalid one fails the whole batch.
 */
export function failedMessages(result: unknown, messageIds: readonly string[]): readonly string[] {
  if (result === null || result === undefined) return [];
  if (typeof result !== "object" || Array.isArray(result)) return messageIds;
  const failures = "batchItemFailures" in result ? result.batchItemFailures : null;
  if (failures === null || failures === undefined) return [];
  if (!Array.isArray(failures)) return messageIds;
  const failed: unknown[] = failures.map((failure) => failure?.itemIdentifier);
  return failed.every(isKnown) ? failed : messageIds;

  function isKnown(id: unknown): id is string {
    return typeof id === "string" && messageIds.includes(id);
  }
}
