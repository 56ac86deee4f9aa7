import { AsyncLocalStorage } from "node:async_hooks";

/** What is known of the work under way: it is in every line of the log, and the id goes on with every message. */
export interface Context {
  /** The same from a user's request through queues, timers and the sandbox, and back from it. */
  requestId: string;
  taskId?: string;
  turn?: number;
  [field: string]: unknown;
}

interface Work {
  context: Context;
  /** When it must be done with what takes time; there is a little time left then to write what came of it. */
  deadlineAt: number;
  /** Called once: when the work ends, or at the deadline, whichever is first. */
  onEnd: Set<() => void>;
  isOver: boolean;
}

const storage = new AsyncLocalStorage<Work>();

/** Every function, of whatever kind, has this much time left at its deadline to write what came of the work. */
const reserveMs = 5000;

/** When the work of an invocation must be done, so that its outcome is written before Lambda kills the function. */
export function deadlineOf(context: { getRemainingTimeInMillis(): number }): number {
  return Date.now() + context.getRemainingTimeInMillis() - reserveMs;
}

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

/** Something more is known of it from here on. */
export function learn(fields: Readonly<Record<string, unknown>>): void {
  Object.assign(storage.getStore()?.context ?? {}, fields);
}

export function currentRequestId(): string | undefined {
  return currentContext().requestId;
}

/** How much time is left for the work under way, which is without a limit where none was set. */
export function timeLeftMs(): number {
  const { deadlineAt = Number.POSITIVE_INFINITY } = storage.getStore() ?? {};
  const limitAt = partDeadlines.getStore() ?? Number.POSITIVE_INFINITY;
  return Math.max(Math.min(deadlineAt, limitAt) - Date.now(), 0);
}

/** The deadline of a part of the work. */
const partDeadlines = new AsyncLocalStorage<number>();

/** Gives a part of the work less time than there is. */
export function limitTime<T>(ms: number, work: () => Promise<T>): Promise<T> {
  return partDeadlines.run(Date.now() + Math.min(ms, timeLeftMs()), work);
}

/**
 * What belongs to the work under way and is done at its end, made by the first who asks for it. Nothing where there is
 * no work, or it is over: what comes after it, as the rest of a stream does, has no end to wait for.
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
