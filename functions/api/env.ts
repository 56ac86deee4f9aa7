import type { Caller, TokenClaims } from "@concierge/core";

/** Set by the middleware: the caller of a user's route, or the turn of a runner's route. */
export interface Env {
  Bindings: { sourceIp?: string };
  Variables: { caller: Caller; turn: TokenClaims; requestId: string };
}
