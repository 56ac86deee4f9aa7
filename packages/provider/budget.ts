/** How much time the caller has left, in milliseconds. A function's verbs must end before the function does. */
export interface Budget {
  timeLeftMs?: (() => number) | undefined;
}

/**
 * Runs a call for at most `timeoutMs`, or for what is left of the budget if that is less. With no time left the call is
 * not made at all. The SDK sleeps between its retries without looking at its signal, so this does not wait for the
 * call to notice that it was aborted.
 */
export async function inTime<T>(
  { timeLeftMs }: Budget,
  timeoutMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limitMs = Math.min(timeoutMs, timeLeftMs?.() ?? timeoutMs);
  if (!(limitMs > 0)) throw timeout();
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(timeout()), limitMs);
  const overdue = new Promise<never>((_, reject) => {
    over.signal.addEventListener("abort", () => reject(over.signal.reason));
  });
  try {
    return await Promise.race([call(over.signal), overdue]);
  } finally {
    clearTimeout(timer);
    // Ends what a failed call left open, such as the other of two requests.
    over.abort();
  }
}

function timeout(): DOMException {
  return new DOMException("The call took too long.", "TimeoutError");
}
