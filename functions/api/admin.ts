import { AppError } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { Env } from "./env.ts";

export const requireAdmin: MiddlewareHandler<Env> = async (c, next) => {
  if (!c.get("caller").admin) throw new AppError("forbidden", "This is for admins.");
  return await next();
};
