import { ProviderError, type ProviderFailure } from "@concierge/core";
import { APIError, StreamError } from "@vercel/sandbox";
import * as z from "zod/mini";

const longestRetryAfterMs = 60_000;
/** The sandbox is between two states. The same call will get another answer soon. */
const passingCodes: ReadonlySet<string> = new Set([
  "sandbox_stopping",
  "sandbox_snapshotting",
  "sandbox_pending",
]);
const apiError = z.object({ error: z.object({ code: z.string() }) });

/** What the SDK threw, as a `ProviderError`. If its kind is `gone` or `stopped` that is a claim: see `claimOf`. */
export function asFailure(what: string, error: unknown, { hasBegun = false } = {}): ProviderError {
  if (error instanceof ProviderError) return error;
  return new ProviderError(claimOf(error), `The provider could not ${what}: ${describe(error)}`, {
    cause: error,
    retryAfterMs: retryAfterOf(error),
    hasBegun,
  });
}

/** The same failure, with the kind that a look-up found to be true. */
export function confirmedAs(
  kind: ProviderFailure,
  { message, cause, hasBegun, retryAfterMs }: ProviderError,
) {
  return new ProviderError(kind, message, { cause, hasBegun, retryAfterMs });
}

/**
 * What an error of the SDK claims. `gone` and `stopped` are only claims: a 404 can be about the command, a 410 can come
 * from something between us and the provider. A look-up of the sandbox must confirm them before anyone relies on them.
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
  // A status below 400 here is an answer that could not be read to its end.
  return status >= 500 || status === 408 || status < 400 ? "transient" : "refused";
}

/** Whether the provider says that a snapshot does not exist, in an answer about something else. */
export function isSnapshotMissing({ cause }: ProviderError): boolean {
  return cause instanceof APIError && cause.response.status === 410 && codeOf(cause) === "snapshot_not_found";
}

/** The status of the answer, if there was one. */
export function statusOf({ cause }: ProviderError): number | undefined {
  return cause instanceof APIError ? cause.response.status : undefined;
}

/** The code of the API's own error body. A page of a proxy in between has none. */
function codeOf({ json }: APIError<unknown>): string | undefined {
  const parsed = apiError.safeParse(json);
  return parsed.success ? parsed.data.error.code : undefined;
}

function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof APIError)) return undefined;
  return readRetryAfter(error.response.headers.get("retry-after"), Date.now());
}

/** How long to wait, from a `Retry-After` header in either of its forms: seconds, or a date. A minute at most. */
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
