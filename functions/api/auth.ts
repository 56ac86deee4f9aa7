import { AppError, authenticate, type Deps, type SealingDeps } from "@concierge/core";
import type { Context, MiddlewareHandler } from "hono";
import type { Env } from "./env.ts";

const runnerPaths = "/v1/runner/";

/** Every route under /v1 is for whoever has a key, but the runners', who have a token. */
export function requireKey(deps: Deps, adminKey: string): MiddlewareHandler<Env> {
  return async (c, next) => {
    if (c.req.path.startsWith(runnerPaths)) return await next();
    const presented = bearer(c);
    const caller = presented ? await authenticate(deps, adminKey, presented) : undefined;
    if (!caller) throw new AppError("unauthorized", "Send a valid key as `Authorization: Bearer <key>`.");
    c.set("caller", caller);
    return await next();
  };
}

export function requireToken({ sealer, clock }: SealingDeps): MiddlewareHandler<Env> {
  return async (c, next) => {
    const turn = sealer.readToken(bearer(c) ?? "", clock.now());
    if (!turn) throw new AppError("unauthorized", "The runner's token is not valid.");
    c.set("turn", turn);
    return await next();
  };
}

/** Behind the router `authorization` is the router's signature, and the caller's own is handed on beside it. */
function bearer({ req }: Context<Env>): string | undefined {
  const header = req.header("x-forwarded-authorization") ?? req.header("authorization") ?? "";
  return /^Bearer +(\S+)$/i.exec(header)?.[1];
}
