import type { Deps } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { LambdaContext } from "hono/aws-lambda";
import { requestId } from "hono/request-id";
import { deadlineOf, inContext, learn } from "../context.ts";
import { log } from "../log.ts";
import type { Env } from "./env.ts";

/** The caller's `x-request-id` where it is well formed, else Lambda's own; it is on the answer. */
export const identify = requestId({
  limitLength: 128,
  generator: ({ env }) => lambdaContextOf(env)?.awsRequestId ?? crypto.randomUUID(),
});

/** What a request's own work may take: a client that waits longer asks again, and CloudFront gives up after 60 s. */
const requestMs = 25_000;

/** A command of the user's takes what it was given, and a sweep looks at the time itself: the function's limit is theirs. */
const takesItsTime = /^\/v1\/(sessions\/[^/]+\/exec|reap)$/;

/** One line for each request, which is its metric too; what went wrong here is told to the log. */
export function observe({ metrics }: Deps): MiddlewareHandler<Env> {
  return async (c, next) => {
    const { method, path } = c.req;
    const startedAt = Date.now();
    const answer = async () => {
      await next();
      const { status } = c.res;
      learn({ ...taskIn(c.res.headers.get("location") ?? ""), method, path, status });
      learn({ durationMs: Date.now() - startedAt });
      if (status >= 500) {
        log.error("request failed", c.error);
        metrics.count("http_errors");
      }
      metrics.count("http_requests");
    };
    const context = { requestId: c.get("requestId"), ...taskIn(path) };
    await inContext(context, answer, deadlineFor(path, lambdaContextOf(c.env)));
  };
}

/** In a test there is no function, and so no limit but the request's own. */
function deadlineFor(path: string, lambda: LambdaContext | undefined): number {
  const ofFunction = lambda ? deadlineOf(lambda) : Number.POSITIVE_INFINITY;
  return takesItsTime.test(path) ? ofFunction : Math.min(ofFunction, Date.now() + requestMs);
}

function lambdaContextOf(env: unknown): LambdaContext | undefined {
  return (env as { lambdaContext?: LambdaContext } | undefined)?.lambdaContext;
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
