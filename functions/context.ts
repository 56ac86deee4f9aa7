import { AsyncLocalStorage } from "node:async_hooks";

/** What is known of the work under way: it is in every line of the log, and the id goes on with every message. */
export interface Context {
  /** The same from a user's request through queues, timers and the sandbox, and back from it. */
  requestId: string;
  taskId?: string;
  turn?: number;
  [field: string]: unknown;
}

const storage = new AsyncLocalStorage<Context>();

export function inContext<T>(context: Context, work: () => Promise<T>): Promise<T> {
  return storage.run({ ...context }, work);
}

export function currentContext(): Readonly<Partial<Context>> {
  return storage.getStore() ?? {};
}

/** Something more is known of it from here on. */
export function learn(fields: Readonly<Record<string, unknown>>): void {
  Object.assign(storage.getStore() ?? {}, fields);
}

export function currentRequestId(): string | undefined {
  return currentContext().requestId;
}
