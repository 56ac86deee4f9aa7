import { ProviderError, type ProviderFailure } from "@concierge/core";
import { APIError, StreamError } from "@vercel/sandbox";

/** Runs a call of the SDK; what it throws comes out classified by type and status. */
export async function classified<T>(
  what: string,
  call: () => Promise<T>,
  { hasBegun = false } = {},
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof ProviderError) throw error;
    throw new ProviderError(kindOf(error), `The provider could not ${what}: ${describe(error)}`, {
      cause: error,
      retryAfterMs: retryAfterOf(error),
      hasBegun,
    });
  }
}

export function kindOf(error: unknown): ProviderFailure {
  if (error instanceof StreamError) return "stopped";
  // Whatever is no answer of the service (a connection that broke, a time-out) says nothing of the sandbox.
  if (!(error instanceof APIError)) return "transient";
  const { status } = error.response;
  if (status === 404 || status === 410) return "gone";
  if (status === 422) return "stopped";
  if (status === 429) return "throttled";
  return status >= 500 || status === 408 ? "transient" : "refused";
}

/** How long a busy service asked to be left alone: seconds, as it says them; a minute at the most. */
function retryAfterOf(error: unknown): number | undefined {
  const header = error instanceof APIError ? error.response.headers.get("retry-after") : null;
  const seconds = Number(header);
  return header !== null && seconds > 0 ? Math.min(seconds, 60) * 1000 : undefined;
}

function describe(error: unknown): string {
  if (error instanceof APIError) return `status ${error.response.status}`;
  return error instanceof Error ? error.name : "unknown";
}
