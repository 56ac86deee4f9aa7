import { AppError, authenticate, type Deps, type SealingDeps } from "@concierge/core";
import type { RateLimiter } from "@concierge/core/users/rate";
import { turnHeader, turnMark } from "@concierge/protocol";
import type { Context, MiddlewareHandler } from "hono";
import { learn } from "../../context.ts";
import type { Env } from "../env.ts";

const runnerPaths = "/v1/runner/";

/** Requires a valid key on every route under /v1 except the runner's, which use a token. */
export function requireKey(deps: Deps, adminKey: string): MiddlewareHandler<Env> {
  return async (c, next) => {
    if (c.req.path.startsWith(runnerPaths)) return await next();
    const presented = bearer(c);
    const caller = presented ? await authenticate(deps, adminKey, presented) : undefined;
    if (!caller) throw new AppError("unauthorized", "Send a valid key as `Authorization: Bearer <key>`.");
    c.set("caller", caller);
    learn({ userId: caller.userId, keyId: caller.keyId });
    return await next();
  };
}

/** Refuses a caller who sends too many requests. Runners are limited elsewhere, by turn. */
export function limitRate(countRequest: RateLimiter): MiddlewareHandler<Env> {
  return async (c, next) => {
    const caller = c.get("caller");
    if (caller) await countRequest(caller.userId, caller.keyId);
    return await next();
  };
}

/**
 * Requires a runner's token. Every answer to a token that we issued names the turn, refusals included. A runner obeys only
 * such answers, so that a 401 or 404 from a proxy, or from another Concierge, does not stop its agent.
 */
export function requireToken({ sealer, clock }: SealingDeps): MiddlewareHandler<Env> {
  return async (c, next) => {
    const turn = sealer.readToken(bearer(c) ?? "");
    if (!turn) throw new AppError("unauthorized", "The runner's token is not valid.");
    c.header(turnHeader, turnMark(turn));
    if (turn.expiresAt <= clock.now()) throw new AppError("unauthorized", "The runner's token has expired.");
    c.set("turn", turn);
    return await next();
  };
}

/** Behind CloudFront, `authorization` holds CloudFront's signature, and the caller's value is in the other header. */
function bearer({ req }: Context<Env>): string | undefined {
  const header = req.header("x-forwarded-authorization") ?? req.header("authorization") ?? "";
  return /^Bearer +(\S+)$/i.exec(header)?.[1];
}
