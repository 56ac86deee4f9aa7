import { ProviderError, type ProviderFailure } from "@concierge/core";
import { APIError, StreamError } from "@vercel/sandbox";
import * as z from "zod/mini";

const longestRetryAfterMs = 60_000;
/** The sandbox is between two states. The same call will soon get another answer. */
const passingCodes: ReadonlySet<string> = new Set([
  "sandbox_stopping",
  "sandbox_snapshotting",
  "sandbox_pending",
]);
const apiError = z.object({ error: z.object({ code: z.string() }) });

/** An error of the SDK as a `ProviderError`. The kinds `gone` and `stopped` are unconfirmed: see `claimOf`. */
export function asFailure(what: string, error: unknown, { hasBegun = false } = {}): ProviderError {
  if (error instanceof ProviderError) return error;
  return new ProviderError(claimOf(error), `The provider could not ${what}: ${describe(error)}`, {
    cause: error,
    retryAfterMs: retryAfterOf(error),
    hasBegun,
  });
}

/** The same failure with the kind that a lookup confirmed. */
export function confirmedAs(
  kind: ProviderFailure,
  { message, cause, hasBegun, retryAfterMs }: ProviderError,
) {
  return new ProviderError(kind, message, { cause, hasBegun, retryAfterMs });
}

/**
 * What an error of the SDK claims. `gone` and `stopped` are only claims: a 404 can be about the command, and a 410 can
 * come from a proxy. A lookup of the sandbox must confirm them before the caller relies on them.
 */
export function claimOf(error: unknown): ProviderFailure {
  // Most stream errors mean that the stream broke, which says nothing about the sandbox.
  if (error instanceof StreamError) return error.code === "sandbox_stopped" ? "stopped" : "transient";
  if (!(error instanceof APIError)) return "transient";
  const { status } = error.response;
  const code = codeOf(error);
  if (status === 404) return code === undefined ? "transient" : "gone";
  if (status === 410) return "stopped";
  if (status === 422 && code === "sandbox_stopped") return "stopped";
  if (status === 422 && code !== undefined && passingCodes.has(code)) return "transient";
  if (status === 429) return "throttled";
  // A status below 400 here means that the body could not be read to its end.
  return status >= 500 || status === 408 || status < 400 ? "transient" : "refused";
}

/** Whether the provider refused because a snapshot does not exist. */
export function isSnapshotMissing({ cause }: ProviderError): boolean {
  return cause instanceof APIError && cause.response.status === 410 && codeOf(cause) === "snapshot_not_found";
}

/** The status of the answer, if there was one. */
export function statusOf({ cause }: ProviderError): number | undefined {
  return cause instanceof APIError ? cause.response.status : undefined;
}

/** The code in the API's error body. An error page of a proxy has none. */
function codeOf({ json }: APIError<unknown>): string | undefined {
  const parsed = apiError.safeParse(json);
  return parsed.success ? parsed.data.error.code : undefined;
}

function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof APIError)) return undefined;
  return readRetryAfter(error.response.headers.get("retry-after"), Date.now());
}

/** Parses a `Retry-After` header, in seconds or as a date. At most a minute. */
export function readRetryAfter(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return ms > 0 ? Math.min(ms, longestRetryAfterMs) : undefined;
}

function describe(error: unknown): string {
  if (error instanceof APIError) return `status ${error.response.status}`;
  if (error instanceof StreamError) return `${error.name} ${error.code}`;
  return error instanceof Error ? error.name : "unknown";
}
