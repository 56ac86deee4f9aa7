export type Scope = ReturnType<typeof createScope>;

/** Collects what was started and closes it in reverse order, even in the middle of a start. */
export function createScope() {
  const closers: (() => Promise<void>)[] = [];
  let closing: Promise<void> | undefined;

  return {
    /** Throws if the scope is closing; `close` is still called. */
    add(close: () => Promise<void>): void {
      closers.push(close);
      if (closing) throw new Error("stopped while starting");
    },
    close(): Promise<void> {
      closing = (closing ?? Promise.resolve()).then(closeAll);
      return closing;
    },
  };

  async function closeAll(): Promise<void> {
    for (let close = closers.pop(); close; close = closers.pop()) await close();
  }
}
