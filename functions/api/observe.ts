import type { Deps } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { LambdaContext } from "hono/aws-lambda";
import { requestId } from "hono/request-id";
import { inContext, learn } from "../context.ts";
import { log } from "../log.ts";
import type { Env } from "./env.ts";

/** The caller's `x-request-id` where it is well formed, else Lambda's own; it is on the answer. */
export const identify = requestId({
  limitLength: 128,
  generator: ({ env }) =>
    (env as { lambdaContext?: LambdaContext } | undefined)?.lambdaContext?.awsRequestId ??
    crypto.randomUUID(),
});

/** One line for each request, which is its metric too; what went wrong here is told to the log. */
export function observe({ metrics }: Deps): MiddlewareHandler<Env> {
  return async (c, next) => {
    const { method, path } = c.req;
    const startedAt = Date.now();
    await inContext({ requestId: c.get("requestId"), ...taskIn(path) }, async () => {
      await next();
      const { status } = c.res;
      learn({ ...taskIn(c.res.headers.get("location") ?? ""), method, path, status });
      learn({ durationMs: Date.now() - startedAt });
      if (status >= 500) {
        log.error("request failed", c.error);
        metrics.count("http_errors");
      }
      metrics.count("http_requests");
    });
  };
}

/** Whose runner calls. */
export const learnTurn: MiddlewareHandler<Env> = async (c, next) => {
  const { taskId, turn } = c.get("turn");
  learn({ taskId, turn });
  return await next();
};

function taskIn(path: string): { taskId?: string } {
  const [, taskId] = /^\/v1\/tasks\/(task_\w+)/.exec(path) ?? [];
  return taskId === undefined ? {} : { taskId };
}
