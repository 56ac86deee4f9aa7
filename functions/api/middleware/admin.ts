import { AppError } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { Env } from "../env.ts";

/** Refuses callers whose key is not an admin key. */
export const requireAdmin: MiddlewareHandler<Env> = async (c, next) => {
  if (!c.get("caller").admin) throw new AppError("forbidden", "Only an admin key may do this.");
  return await next();
};
