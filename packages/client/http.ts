import { ConciergeError, errorOf } from "./errors.ts";

export interface ClientOptions {
  /** Where Concierge is, for example `https://concierge.example.com`. */
  url: string;
  apiKey: string;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined;
  /** How often a call is repeated where that is safe. Default 4. */
  retries?: number | undefined;
  /** How long one attempt may take. Default 60 seconds; calls that wait by themselves get more. */
  timeoutMs?: number | undefined;
  /** Told before each retry. */
  onRetry?: ((retry: Retry) => void) | undefined;
}

export interface Retry {
  error: ConciergeError;
  delayMs: number;
}

export interface HttpRequest {
  method: string;
  path: string;
  query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  body?: unknown;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /** Sending it twice has the effect of sending it once. */
  isRepeatable?: boolean | undefined;
}

const defaultRetries = 4;
const defaultTimeoutMs = 60_000;
const firstDelayMs = 500;
const maxDelayMs = 10_000;
/** A longer `Retry-After` is left to the caller. */
const maxRetryAfterMs = 30_000;

export type Http = ReturnType<typeof createHttp>;

/** Sends requests with the caller's key. Every failure is a `ConciergeError`, except the caller's own abort. */
export function createHttp(options: ClientOptions) {
  const { apiKey, retries = defaultRetries, timeoutMs: defaultMs = defaultTimeoutMs, onRetry } = options;
  const base = new URL(options.url).href.replace(/\/+$/, "");
  // The global is looked up for each call and called without `this`, as browsers require.
  const fetch: typeof globalThis.fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new TypeError("apiKey must be printable characters without spaces");

  return { base, send, open, onRetry };

  /** Retries where that is safe. `read` is part of each attempt: a connection can break in the middle of a body. */
  async function send<T>(request: HttpRequest, read: (response: Response) => Promise<T>): Promise<T> {
    const { signal, timeoutMs = defaultMs } = request;
    for (let attempt = 0; ; attempt++) {
      try {
        return await limited(
          base,
          timeoutMs,
          signal,
          async (limit) => await read(await open(request, limit)),
        );
      } catch (error) {
        const isLast = attempt >= retries;
        if (isLast || !(error instanceof ConciergeError) || !mayRetry(error, request)) throw error;
        const delayMs = retryDelayMs(attempt, error.retryAfterMs);
        onRetry?.({ error, delayMs });
        await sleep(delayMs, signal);
      }
    }
  }

  /** One attempt. Returns when the headers of a successful response are here. */
  async function open(
    { method, path, query = {}, headers = {}, body }: HttpRequest,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) search.set(name, String(value));
    const response = await fetch(`${base}${path}${search.size > 0 ? `?${search}` : ""}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // A redirect would turn a POST into a GET.
      redirect: "manual",
      ...(signal && { signal }),
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** Runs one attempt within its time. Failures of the connection become a `ConciergeError`. */
async function limited<T>(
  base: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    return await attempt(signal ? AbortSignal.any([signal, timeout]) : timeout);
  } catch (cause) {
    if (timeout.aborted && !signal?.aborted) {
      const detail = `${base} did not answer within ${timeoutMs / 1000} s.`;
      throw new ConciergeError({ code: "timeout", status: 0, detail, cause });
    }
    throw toConciergeError(cause, signal, base);
  }
}

/** The caller's own abort stays what it is. */
export function toConciergeError(error: unknown, signal: AbortSignal | undefined, base: string): unknown {
  if (signal?.aborted) return signal.reason;
  if (error instanceof ConciergeError) return error;
  if (error instanceof SyntaxError) {
    const detail = `The answer of ${base} is not JSON. Check the URL.`;
    return new ConciergeError({ code: "unexpected_response", status: 0, detail, cause: error });
  }
  const detail = `${base} cannot be reached, or the connection broke${reasonOf(error)}.`;
  return new ConciergeError({ code: "connection_failed", status: 0, detail, cause: error });
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? ` (${code})` : "";
}

/**
 * A call that is not repeatable may have had its effect although no answer arrived, so it is repeated only after a 429:
 * the server refused it before it did anything.
 */
function mayRetry(error: ConciergeError, { isRepeatable = false }: HttpRequest): boolean {
  const { status, retryAfterMs = 0 } = error;
  if (retryAfterMs > maxRetryAfterMs) return false;
  return (status === 429 && error.retryAfterMs !== undefined) || (isRepeatable && isTransient(error));
}

/** Whether the same call may succeed later. */
export function isTransient({ code, status }: ConciergeError): boolean {
  return code === "connection_failed" || code === "timeout" || [429, 500, 502, 503, 504].includes(status);
}

/** Grows with the attempts. The jitter keeps many clients from coming back at the same moment. */
export function retryDelayMs(attempt: number, retryAfterMs = 0): number {
  const backoffMs = Math.min(firstDelayMs * 2 ** attempt, maxDelayMs) * (0.5 + Math.random() / 2);
  return retryAfterMs > 0 ? retryAfterMs + backoffMs / 4 : backoffMs;
}

export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
