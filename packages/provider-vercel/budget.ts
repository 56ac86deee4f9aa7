export interface Budget {
  /** How much time the caller has left. No call takes longer. */
  timeLeftMs?: (() => number) | undefined;
}

/**
 * Runs a call for at most `timeoutMs`, or for the rest of the budget if that is less. With no time left the call is not
 * made. The SDK ignores its signal while it sleeps between retries, so this does not wait for the call to end.
 */
export async function inTime<T>(
  { timeLeftMs }: Budget,
  timeoutMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limitMs = Math.min(timeoutMs, timeLeftMs?.() ?? timeoutMs);
  if (!(limitMs > 0)) throw timeout();
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(timeout()), limitMs);
  const overdue = new Promise<never>((_, reject) => {
    ending.signal.addEventListener("abort", () => reject(ending.signal.reason));
  });
  try {
    return await Promise.race([call(ending.signal), overdue]);
  } finally {
    clearTimeout(timer);
    // Ends what a failed call left open, such as the second of two requests.
    ending.abort();
  }
}

function timeout(): DOMException {
  return new DOMException("The call took too long.", "TimeoutError");
}
