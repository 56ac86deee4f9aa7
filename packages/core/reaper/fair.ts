/** The first `limit` items, taken from each user in turn, so that one user's backlog does not delay the others. */
export function interleave<T extends { userId: string }>(items: readonly T[], limit: number): T[] {
  const queues = [...Map.groupBy(items, ({ userId }) => userId).values()];
  const longest = Math.max(0, ...queues.map((queue) => queue.length));
  const rounds = Array.from({ length: longest }, (_, round) => queues.flatMap((queue) => queue[round] ?? []));
  return rounds.flat().slice(0, limit);
}
