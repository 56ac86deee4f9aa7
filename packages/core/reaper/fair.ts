/** The first `limit` of a list, taken in turn from each user, so that one user's backlog does not hold up the others. */
export function interleave<T extends { userId: string }>(items: readonly T[], limit: number): T[] {
  const queues = [...Map.groupBy(items, ({ userId }) => userId).values()];
  const longest = Math.max(0, ...queues.map((queue) => queue.length));
  const rounds = Array.from({ length: longest }, (_, round) => queues.flatMap((queue) => queue[round] ?? []));
  return rounds.flat().slice(0, limit);
}
