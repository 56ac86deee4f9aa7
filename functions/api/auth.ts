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

/** As `turnHeader` in the runner's protocol. */
const turnHeader = "x-concierge-turn";

/**
 * Every answer to a token that we issued names the turn, refusals included. A runner obeys only such answers: a 401 or
 * 404 from anything between us, or from another Concierge that does not know the token, must not stop its agent.
 */
export function requireToken({ sealer, clock }: SealingDeps): MiddlewareHandler<Env> {
  return async (c, next) => {
    const turn = sealer.readToken(bearer(c) ?? "");
    if (!turn) throw new AppError("unauthorized", "The runner's token is not valid.");
    c.header(turnHeader, `${turn.taskId}/${turn.turn}`);
    if (turn.expiresAt <= clock.now()) throw new AppError("unauthorized", "The runner's token has expired.");
    c.set("turn", turn);
    return await next();
  };
}

/** Behind the router `authorization` is the router's signature, and the caller's own is handed on beside it. */
function bearer({ req }: Context<Env>): string | undefined {
  const header = req.header("x-forwarded-authorization") ?? req.header("authorization") ?? "";
  return /^Bearer +(\S+)$/i.exec(header)?.[1];
}
