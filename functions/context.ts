import { AsyncLocalStorage } from "node:async_hooks";

/** Fields of the current work. They are in every log line; the request id is also sent with every message. */
export interface Context {
  /** The same from a user's request through queues, timers and the sandbox. */
  requestId: string;
  taskId?: string;
  turn?: number;
  [field: string]: unknown;
}

interface Work {
  context: Context;
  /** When the work must be done. `reserveMs` is left after it. */
  deadlineAt: number;
  /** Called once, when the work ends or at the deadline. */
  onEnd: Set<() => void>;
  isOver: boolean;
}

const storage = new AsyncLocalStorage<Work>();

/** Time between the deadline and the end of the function, for writing the outcome. */
const reserveMs = 5000;

/** The deadline of an invocation, early enough to write the outcome before Lambda kills the function. */
export function deadlineOf(context: { getRemainingTimeInMillis(): number }): number {
  return Date.now() + context.getRemainingTimeInMillis() - reserveMs;
}

/** Runs `work` in its own context, which `learn`, `timeLeftMs` and `untilEnd` refer to. */
export async function inContext<T>(
  context: Context,
  work: () => Promise<T>,
  deadlineAt = Number.POSITIVE_INFINITY,
): Promise<T> {
  const current: Work = { context: { ...context }, deadlineAt, onEnd: new Set(), isOver: false };
  return await storage.run(current, async () => {
    const timer = Number.isFinite(deadlineAt)
      ? setTimeout(() => end(current), Math.max(deadlineAt - Date.now(), 0)).unref()
      : undefined;
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      end(current);
    }
  });
}

function end(work: Work): void {
  work.isOver = true;
  for (const call of work.onEnd) call();
  work.onEnd.clear();
}

export function currentContext(): Readonly<Partial<Context>> {
  return storage.getStore()?.context ?? {};
}

/** Adds fields to the context of the current work. */
export function learn(fields: Readonly<Record<string, unknown>>): void {
  Object.assign(storage.getStore()?.context ?? {}, fields);
}

export function currentRequestId(): string | undefined {
  return currentContext().requestId;
}

/** The time left for the current work. Infinite if it has no deadline. */
export function timeLeftMs(): number {
  const { deadlineAt = Number.POSITIVE_INFINITY } = storage.getStore() ?? {};
  const limitAt = partDeadlines.getStore() ?? Number.POSITIVE_INFINITY;
  return Math.max(Math.min(deadlineAt, limitAt) - Date.now(), 0);
}

const partDeadlines = new AsyncLocalStorage<number>();

/** Runs a part of the work with at most `ms` of the time that is left. */
export function limitTime<T>(ms: number, work: () => Promise<T>): Promise<T> {
  return partDeadlines.run(Date.now() + Math.min(ms, timeLeftMs()), work);
}

/**
 * A value of the current work, created on first use; its `end` is called when the work ends. Undefined if there is no
 * current work or it has ended, as for the rest of a stream.
 */
export function untilEnd<T extends { end(): void }>(
  owner: WeakMap<object, T>,
  create: () => T,
): T | undefined {
  const work = storage.getStore();
  if (!work || work.isOver) return undefined;
  const known = owner.get(work);
  if (known) return known;
  const created = create();
  owner.set(work, created);
  work.onEnd.add(() => created.end());
  return created;
}
