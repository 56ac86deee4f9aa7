import type { Caller, TokenClaims } from "@concierge/core";

/** What the routes find in their context: who calls, or which turn's runner. */
export interface Env {
  Variables: { caller: Caller; turn: TokenClaims; requestId: string };
}
