import type { OpenAPIHono, RouteConfig } from "@hono/zod-openapi";
import { Hono, type MiddlewareHandler } from "hono";
import { validator } from "hono/validator";
import type * as z from "zod";
import type { Env } from "./env.ts";
import { answerInvalid } from "./problem.ts";

type Body = NonNullable<NonNullable<RouteConfig["request"]>["body"]>;

/**
 * Routes that parse what they are sent with the schemas they are described by. It is what @hono/zod-openapi's
 * router is to its caller, whose types these are; but that one makes the document's registry and loads all of
 * zod with every cold start, for a document that is hardly ever asked for.
 */
export class Router extends Hono<Env> {
  /** What the document is made of. */
  readonly described: RouteConfig[] = [];

  openapi = ((route: RouteConfig, handler: MiddlewareHandler) => {
    if (!route.hide) this.described.push(route);
    return this.on([route.method], [routingPath(route.path)], ...parsers(route), handler);
  }) as unknown as OpenAPIHono<Env>["openapi"];
}

export function createRoute<const Path extends string, Route extends RouteConfig & { path: Path }>(
  route: Route,
): Route {
  return route;
}

function routingPath(path: string): string {
  return path.replaceAll(/\/{(.+?)}/g, "/:$1");
}

function parsers({ request = {} }: RouteConfig): MiddlewareHandler[] {
  const { query, params, headers, body } = request;
  return [
    ...(query ? [parser("query", query)] : []),
    ...(params ? [parser("param", params)] : []),
    ...(isSchema(headers) ? [parser("header", headers)] : []),
    ...(body ? [bodyParser(body)] : []),
  ];
}

function bodyParser({ content, required }: Body): MiddlewareHandler {
  const media = content["application/json"];
  const schema = media && "schema" in media ? media.schema : undefined;
  if (!isSchema(schema)) throw new Error("a route's body is JSON, by a schema");
  const parse = parser("json", schema);
  if (required) return parse;
  return async (c, next) => {
    if (c.req.header("content-type") !== undefined) return await parse(c, next);
    c.req.addValidatedData("json", {});
    return await next();
  };
}

function parser(target: "query" | "param" | "header" | "json", schema: z.ZodType): MiddlewareHandler {
  return validator(target, async (value, c) => {
    const result = await schema.safeParseAsync(value);
    return result.success ? result.data : answerInvalid(result.error, c);
  });
}

/** The types allow more than we use: lists of headers, schemas that are JSON already. */
function isSchema(value: unknown): value is z.ZodType {
  return typeof value === "object" && value !== null && "safeParseAsync" in value;
}
