/**
 * Fixed buckets, eight per doubling, so that counts of any hour, user or version add up. A percentile is the geometric
 * middle of its bucket: at most 4.4 % off.
 */
const perDoubling = 8;
/** The last bucket starts at about 24 hours in milliseconds. */
const bucketMax = 27 * perDoubling;

export function bucketOf(value: number): number {
  if (!(value > 1)) return 0;
  return Math.min(Math.ceil(Math.log2(value) * perDoubling), bucketMax);
}

/** The value that stands for a bucket. */
export function middleOf(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - 0.5) / perDoubling);
}

/** The nearest-rank percentile of counts by bucket; null without a count. */
export function percentile(counts: ReadonlyMap<number, number>, fraction: number): number | null {
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = Math.ceil(total * fraction);
  let seen = 0;
  for (const bucket of [...counts.keys()].sort((a, b) => a - b)) {
    seen += counts.get(bucket) ?? 0;
    if (seen >= rank) return middleOf(bucket);
  }
  return null;
}
