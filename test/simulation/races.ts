import type { Footprint } from "./footprint.ts";

/**
 * Who is first to touch what, in all that can follow a state, by which of the steps that wait in that state leads to
 * it: itself, or as the first cause of another.
 */
export interface Races {
  readonly firsts: ReadonlyMap<string, Firsts>;
  /** Takes in what followed a step, and gives the others that wait and may race with it: each is to be tried first, too. */
  add(step: string, footprint: Footprint, after: Races): ReadonlySet<string>;
}

interface Firsts {
  /** Who reads it before it is changed. */
  reads: Set<string>;
  /** Who changes it before it is changed. */
  writes: Set<string>;
  /** Who changes it before it is as much as read. */
  unread: Set<string>;
}

/**
 * A step races with whatever is the first to touch what it changed, or to change what it read, in anything that
 * follows it. All between the two touch nothing that the step did in a way that matters, so either could have come
 * first; what comes later still is in a race with those first ones, and is found there.
 */
export function createRaces(waiting: ReadonlySet<string>): Races {
  const firsts = new Map<string, Firsts>();

  const firstsOf = (item: string): Firsts => {
    const known = firsts.get(item) ?? { reads: new Set(), writes: new Set(), unread: new Set() };
    firsts.set(item, known);
    return known;
  };

  return {
    firsts,
    add(step, { reads, writes }, after) {
      const racing = new Set<string>();
      // What did not wait yet is there because of the step.
      const causeOf = (label: string): string => (waiting.has(label) ? label : step);
      const later = (item: string, how: keyof Firsts): string[] =>
        [...(after.firsts.get(item)?.[how] ?? [])].map(causeOf);

      for (const item of new Set([...reads, ...writes, ...after.firsts.keys()])) {
        const first = firstsOf(item);
        if (writes.has(item)) {
          first.writes.add(step);
          (reads.has(item) ? first.reads : first.unread).add(step);
          for (const label of [...later(item, "reads"), ...later(item, "unread")]) racing.add(label);
          continue;
        }
        for (const label of later(item, "reads")) first.reads.add(label);
        for (const label of later(item, "writes")) first.writes.add(label);
        if (reads.has(item)) {
          first.reads.add(step);
          for (const label of later(item, "writes")) racing.add(label);
        } else for (const label of later(item, "unread")) first.unread.add(label);
      }
      racing.delete(step);
      return racing;
    },
  };
}
