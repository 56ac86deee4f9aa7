export type Scope = ReturnType<typeof createScope>;

/** What has been started so far, to be ended in the reverse order, also in the middle of a start. */
export function createScope() {
  const closers: (() => Promise<void>)[] = [];
  let closing: Promise<void> | undefined;

  return {
    /** Throws when the scope is closing: what comes too late is ended with the rest. */
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
