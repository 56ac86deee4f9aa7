import { z } from "zod";

const delayMs = z.number().int().min(0);

const Effect = z.discriminatedUnion("type", [
  /** Answers with this status and does nothing else. */
  z.object({
    type: z.literal("status"),
    status: z.number().int().min(400).max(599),
    code: z.string().default("injected"),
    message: z.string().default("An injected fault."),
    headers: z.record(z.string(), z.string()).default({}),
    /** An HTML page instead of the API's error body, as a proxy would send. */
    page: z.string().optional(),
  }),
  /** Waits, then handles the request. */
  z.object({ type: z.literal("delay"), delayMs }),
  /** Closes the connection and does nothing else. */
  z.object({ type: z.literal("drop") }),
  /** Never answers. Clearing the faults closes the connection. */
  z.object({ type: z.literal("hang") }),
  /** Handles the request, then answers late or closes the connection. */
  z.object({ type: z.literal("commitLate"), delayMs: delayMs.default(0), drop: z.boolean().default(false) }),
  /**
   * Handles the request, then sends a part of the response: some chunks of a stream, or half of a JSON body. The
   * response then ends as if complete, or the connection breaks.
   */
  z.object({
    type: z.literal("cut"),
    chunks: z.number().int().min(0).default(0),
    how: z.enum(["end", "break"]).default("end"),
  }),
  /** Handles the request, then sends some chunks of the stream and an error line. */
  z.object({
    type: z.literal("errorLine"),
    chunks: z.number().int().min(0).default(0),
    code: z.string(),
    message: z.string().default("An injected fault."),
  }),
]);

const pattern = z
  .string()
  .transform((source) => new RegExp(source))
  .optional();

export const FaultRequest = z.object({
  /** All given fields must match. Concurrent tests can use a bearer token each to separate their faults. */
  token: z.string().optional(),
  method: z.string().optional(),
  route: z.string().optional(),
  path: pattern,
  sandbox: pattern,
  /** Number of requests that it affects. */
  count: z.number().int().positive().default(1),
  effect: Effect,
});

export type Fault = z.infer<typeof Effect>;

export interface RouteCount {
  requests: number;
  statuses: Record<string, number>;
}

interface FaultyRequest {
  token: string;
  method: string;
  route: string;
  path: string;
  /** The name of its sandbox. Called only if a fault depends on it. */
  sandbox(): Promise<string | undefined>;
}

/** Pending faults, and counts of requests and replies. */
export interface Faults {
  add(fault: z.infer<typeof FaultRequest>): void;
  clear(): void;
  /** Aborted when the current faults are cleared. */
  readonly cleared: AbortSignal;
  /** The fault for this request, if any. Decrements its count. */
  take(request: FaultyRequest): Promise<Fault | undefined>;
  countRequest(route: string): void;
  countReply(route: string, status: number): void;
  counts(): Record<string, RouteCount>;
}

export function createFaults(): Faults {
  const faults: z.infer<typeof FaultRequest>[] = [];
  const counts = new Map<string, RouteCount>();
  let cleared = new AbortController();

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
      cleared.abort("cleared");
      cleared = new AbortController();
    },
    get cleared() {
      return cleared.signal;
    },
    async take({ token, method, route, path, sandbox }) {
      const needsName = faults.some((candidate) => candidate.count > 0 && candidate.sandbox);
      const name = needsName ? await sandbox() : undefined;
      const fault = faults.find(
        (candidate) =>
          candidate.count > 0 &&
          (candidate.token ?? token) === token &&
          (candidate.method ?? method) === method &&
          (candidate.route ?? route) === route &&
          (candidate.path?.test(path) ?? true) &&
          (candidate.sandbox?.test(name ?? "") ?? true),
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
