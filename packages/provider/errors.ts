import { ProviderError, type ProviderFailure } from "@concierge/core";
import { APIError, StreamError } from "@vercel/sandbox";

/** Runs a call of the SDK; what it throws comes out classified by type and status. */
export async function classified<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof ProviderError) throw error;
    throw new ProviderError(kindOf(error), `The provider could not ${what}: ${describe(error)}`, {
      cause: error,
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

function describe(error: unknown): string {
  if (error instanceof APIError) return `status ${error.response.status}`;
  return error instanceof Error ? error.name : "unknown";
}
