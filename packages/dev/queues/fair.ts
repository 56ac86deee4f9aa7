/** Chooses which messages are handled next, so that one user's backlog does not delay the others. */

export interface Grouped {
  /** The message group, which is the user; messages without one form a group. */
  group: string;
}

/**
 * Messages that were received and wait for a free invocation. The next one comes from the group with the fewest in
 * flight; among those, from the group that was served least recently.
 */
export function createFairBuffer<T extends Grouped>() {
  const waiting = new Map<string, T[]>();
  const inFlight = new Map<string, number>();
  let size = 0;

  return {
    get size(): number {
      return size;
    },

    add(item: T): void {
      const queue = waiting.get(item.group) ?? [];
      queue.push(item);
      waiting.set(item.group, queue);
      size += 1;
    },

    /** Up to `count` items, now in flight. */
    take(count: number): T[] {
      const taken: T[] = [];
      while (taken.length < count) {
        const next = takeOne();
        if (!next) break;
        taken.push(next);
      }
      return taken;
    },

    /** The items are no longer in flight. */
    done(items: readonly T[]): void {
      for (const { group } of items) {
        const left = (inFlight.get(group) ?? 1) - 1;
        if (left > 0) inFlight.set(group, left);
        else inFlight.delete(group);
      }
    },
  };

  function takeOne(): T | undefined {
    let best: string | undefined;
    // The map is in the order in which the groups were last served.
    for (const group of waiting.keys())
      if (best === undefined || (inFlight.get(group) ?? 0) < (inFlight.get(best) ?? 0)) best = group;
    if (best === undefined) return undefined;
    const queue = waiting.get(best) ?? [];
    const item = queue.shift();
    waiting.delete(best);
    if (queue.length > 0) waiting.set(best, queue);
    inFlight.set(best, (inFlight.get(best) ?? 0) + 1);
    size -= 1;
    return item;
  }
}
