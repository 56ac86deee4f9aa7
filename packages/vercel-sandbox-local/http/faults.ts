import { z } from "zod";

const delayMs = z.number().int().min(0);

const Effect = z.discriminatedUnion("type", [
  /** Answers with this status and does nothing. */
  z.object({
    type: z.literal("status"),
    status: z.number().int().min(400).max(599),
    code: z.string().default("injected"),
    message: z.string().default("An injected fault."),
    headers: z.record(z.string(), z.string()).default({}),
  }),
  /** Waits, then goes on as usual. */
  z.object({ type: z.literal("delay"), delayMs }),
  /** Closes the connection before anything is done. */
  z.object({ type: z.literal("drop") }),
  /** Never answers. */
  z.object({ type: z.literal("hang") }),
  /** Does it, then answers late, or closes the connection in place of an answer. */
  z.object({ type: z.literal("commitLate"), delayMs: delayMs.default(0), drop: z.boolean().default(false) }),
]);

export const FaultRequest = z.object({
  /** All that are given must match: the method, the route's name, a regular expression on the path. */
  method: z.string().optional(),
  route: z.string().optional(),
  path: z
    .string()
    .transform((source) => new RegExp(source))
    .optional(),
  /** How many requests it meets. */
  count: z.number().int().positive().default(1),
  effect: Effect,
});

export type Fault = z.infer<typeof Effect>;

export interface RouteCount {
  requests: number;
  statuses: Record<string, number>;
}

/** The faults to come, and what came. */
export interface Faults {
  add(fault: z.infer<typeof FaultRequest>): void;
  clear(): void;
  /** The fault for this request, if there is one; each is used up by its count. */
  take(method: string, route: string, path: string): Fault | undefined;
  countRequest(route: string): void;
  countReply(route: string, status: number): void;
  counts(): Record<string, RouteCount>;
}

export function createFaults(): Faults {
  const faults: z.infer<typeof FaultRequest>[] = [];
  const counts = new Map<string, RouteCount>();

  function countOf(route: string): RouteCount {
    const count = counts.get(route) ?? { requests: 0, statuses: {} };
    counts.set(route, count);
    return count;
  }

  return {
    add(fault) {
      faults.push({ ...fault });
    },
    clear() {
      faults.length = 0;
    },
    take(method, route, path) {
      const fault = faults.find(
        (candidate) =>
          candidate.count > 0 &&
          (candidate.method ?? method) === method &&
          (candidate.route ?? route) === route &&
          (candidate.path?.test(path) ?? true),
      );
      if (!fault) return undefined;
      fault.count -= 1;
      return fault.effect;
    },
    countRequest(route) {
      countOf(route).requests += 1;
    },
    countReply(route, status) {
      const { statuses } = countOf(route);
      statuses[status] = (statuses[status] ?? 0) + 1;
    },
    counts: () => Object.fromEntries(counts),
  };
}
