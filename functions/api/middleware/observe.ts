import type { Deps } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { LambdaContext } from "hono/aws-lambda";
import { requestId } from "hono/request-id";
import { deadlineOf, inContext, learn } from "../../context.ts";
import { log } from "../../telemetry/log.ts";
import type { Env } from "../env.ts";

/** Uses the caller's `x-request-id` if it is well formed, otherwise Lambda's id, and puts it on the answer. */
export const identify = requestId({
  limitLength: 128,
  generator: ({ env }) => lambdaContextOf(env)?.awsRequestId ?? crypto.randomUUID(),
});

/** Time limit of a request. Clients retry if they wait longer, and CloudFront gives up after 60 s. */
const requestMs = 25_000;

/** Limited only by the function: a user's command has its own timeout, and a reaper pass and MCP limit themselves. */
const longRequests = /^\/(v1\/(sessions\/[^/]+\/exec|reap)|mcp)$/;

/** Opens the context of a request, counts it, and logs its error if the answer is a 5xx. */
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

function deadlineFor(path: string, lambda: LambdaContext | undefined): number {
  const ofFunction = lambda ? deadlineOf(lambda) : Number.POSITIVE_INFINITY;
  return longRequests.test(path) ? ofFunction : Math.min(ofFunction, Date.now() + requestMs);
}

function lambdaContextOf(env: unknown): LambdaContext | undefined {
  return (env as { lambdaContext?: LambdaContext } | undefined)?.lambdaContext;
}

/** Adds the runner's turn to the context. */
export const learnTurn: MiddlewareHandler<Env> = async (c, next) => {
  const { taskId, turn } = c.get("turn");
  learn({ taskId, turn });
  return await next();
};

function taskIn(path: string): { taskId?: string } {
  const [, taskId] = /^\/v1\/tasks\/(task_\w+)/.exec(path) ?? [];
  return taskId === undefined ? {} : { taskId };
}
