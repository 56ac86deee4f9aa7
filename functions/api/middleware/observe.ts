import type { Deps } from "@concierge/core";
import type { MiddlewareHandler } from "hono";
import type { LambdaContext } from "hono/aws-lambda";
import { requestId } from "hono/request-id";
import { deadlineOf, inContext, learn } from "../../context.ts";
import { log } from "../../telemetry/log.ts";
import { inSpan, parseTraceparent } from "../../telemetry/trace.ts";
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
      const parent = parseTraceparent(c.req.header("traceparent"));
      await inSpan({ name: `${method} ${routeOf(path)}`, kind: "server", parent }, async (end) => {
        await next();
        end({
          attributes: { "http.request.method": method, "http.response.status_code": c.res.status },
          isError: c.res.status >= 500,
        });
      });
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

/** The path without ids and names, so that spans of one route have one name. */
function routeOf(path: string): string {
  return path
    .replace(/^(\/v1\/(?:tasks|keys|sessions|users))\/[^/]+/, "$1/{id}")
    .split("/")
    .slice(0, routeParts)
    .join("/");
}

const routeParts = 6;

function taskIn(path: string): { taskId?: string } {
  const [, taskId] = /^\/v1\/tasks\/(task_\w+)/.exec(path) ?? [];
  return taskId === undefined ? {} : { taskId };
}
