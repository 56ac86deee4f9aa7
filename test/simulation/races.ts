import type { Footprint } from "./footprint.ts";

/**
 * Which waiting step is the first to touch what, in everything that can follow a state: directly, or as the first cause
 * of another step.
 */
export interface Races {
  readonly firsts: ReadonlyMap<string, Firsts>;
  /**
   * Takes in what followed a step, and returns the waiting steps that may race with it: each must be tried first, too.
   */
  add(step: string, footprint: Footprint, after: Races): ReadonlySet<string>;
}

interface Firsts {
  /** Steps that read it before it is changed. */
  reads: Set<string>;
  /** Steps that change it before it is changed. */
  writes: Set<string>;
  /** Steps that change it before it is read. */
  unread: Set<string>;
}

/**
 * A step races with the first that touches what it changed, or changes what it read, in anything that follows it.
 * Everything between the two is independent of the step, so either could have come first. Later conflicts race with
 * those first ones, and are found there.
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
      // A step that did not wait before is there because of this step.
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
