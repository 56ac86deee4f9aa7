import { AppError, type ErrorCode, hasScope, missingScope, type Scope } from "@concierge/core";
import type { Handler, MiddlewareHandler, TypedResponse } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { Hono } from "hono/tiny";
import type { StatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import { validator } from "hono/validator";
import { en } from "zod/locales";
import * as z from "zod/mini";
import type { Env } from "../env.ts";
import { answerInvalid } from "../problem.ts";

// Without a locale, zod/mini reports only "Invalid input".
z.config(en());

type Schema = z.ZodMiniType;
type Json<T extends Schema = Schema> = { readonly "application/json": { readonly schema: T } };

interface Body {
  readonly description: string;
  readonly required: boolean;
  readonly content: Json;
}

export interface Answer {
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
  readonly headers?: Schema;
}

/** A route: how it is documented and how its requests are parsed. */
export interface Route {
  readonly method: "get" | "post" | "put" | "delete";
  readonly path: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  /** The scope that the caller's key must have. */
  readonly scope?: Scope;
  /** Leaves the route out of the document. */
  readonly hide?: boolean;
  readonly request?: {
    readonly params?: Schema;
    readonly query?: Schema;
    readonly headers?: Schema;
    readonly body?: Body;
  };
  readonly responses: Readonly<Record<string, Answer>>;
  /** Error codes beyond those that `refusalsOf` derives. */
  readonly refuses?: readonly ErrorCode[];
}

/** The parsed parts of a request, by Hono's names. */
interface Parsed<R extends Route> {
  out: Part<R, { params: Schema }, "params", "param"> &
    Part<R, { query: Schema }, "query", "query"> &
    Part<R, { headers: Schema }, "headers", "header"> &
    (R["request"] extends { body: { content: Json<infer T> } } ? { json: z.output<T> } : object);
}

type Part<R extends Route, Has, Name extends keyof Has, Target extends string> = R["request"] extends Has
  ? { [T in Target]: z.output<R["request"][Name]> }
  : object;

/** The answers that a handler may return: the documented statuses, each with its body. */
type Answers<R extends Route> = {
  [Status in keyof R["responses"] as Status extends StatusCode ? Status : never]: AnswerWith<
    R["responses"][Status],
    Status & StatusCode
  >;
} extends infer ByStatus
  ? ByStatus[keyof ByStatus]
  : never;

type AnswerWith<Described, Status extends StatusCode> = Described extends { content: Json<infer T> }
  ? TypedResponse<JSONParsed<z.output<T>>, Status, "json">
  : Described extends { content: object }
    ? Response
    : TypedResponse<unknown, Status, string>;

/** A Hono router whose routes parse their requests with the schemas that document them. */
export class DocumentedRouter extends Hono<Env> {
  readonly documented: Route[] = [];
  // `methodNotAllowed` loads this one anyway. The default of hono/tiny treats `/v1/tasks/` as `/v1/tasks`.
  override router: Hono<Env>["router"] = new TrieRouter();

  openapi<R extends Route>(
    route: R,
    handler: Handler<Env, string, Parsed<R>, Answers<R> | Promise<Answers<R>>>,
  ): void {
    if (!route.hide) this.documented.push(route);
    this.on([route.method], [routingPath(route.path)], ...scopeCheck(route), ...parsers(route), handler);
  }
}

/** Keeps the literal types of a route, from which the types of its handler are derived. */
export function createRoute<const R extends Route>(route: R): R {
  return route;
}

/** A JSON body of a request or of an answer. */
export function json<T extends Schema>(schema: T, description: string) {
  return { description, content: { "application/json": { schema } } };
}

export const security = [{ key: [] }];

/** All error codes of a route: its own, and those that follow from its method and its schemas. */
export function refusalsOf({ method, request = {}, security, scope, refuses = [] }: Route): ErrorCode[] {
  const { params, query, headers } = request;
  const mayHaveBody = method !== "get";
  const isParsed = params || query || headers || takesBody(method);
  return [
    ...(isParsed ? (["invalid_request"] as const) : []),
    ...(takesBody(method) ? (["invalid_json", "unsupported_media_type"] as const) : []),
    ...(mayHaveBody ? (["payload_too_large"] as const) : []),
    ...(security ? (["unauthorized", "rate_limited"] as const) : []),
    ...(scope ? (["missing_scope"] as const) : []),
    ...(params ? (["not_found"] as const) : []),
    ...refuses,
    "method_not_allowed",
    "internal",
  ];
}

/** A route without a body schema still refuses a body that is not empty. */
function takesBody(method: Route["method"]): boolean {
  return method === "post" || method === "put";
}

function routingPath(path: string): string {
  return path.replaceAll(/\/{(.+?)}/g, "/:$1");
}

function scopeCheck({ scope }: Route): MiddlewareHandler<Env>[] {
  if (scope === undefined) return [];
  return [
    async (c, next) => {
      if (!hasScope(c.get("caller"), scope)) throw missingScope(scope);
      return await next();
    },
  ];
}

function parsers({ method, request = {} }: Route): MiddlewareHandler[] {
  const { query, params, headers, body = takesBody(method) ? noBody : undefined } = request;
  return [
    ...(query ? [parser("query", query)] : []),
    ...(params ? [parser("param", params)] : []),
    ...(headers ? [parser("header", headers)] : []),
    ...(body ? [bodyParser(body)] : []),
  ];
}

/** The body of a route without a body schema: none, or an empty object. */
const noBody: Body = { required: false, ...json(z.strictObject({}), "No fields") };

/** Requires JSON with its content type. If the body is not required, an absent one counts as `{}`. */
function bodyParser({ content, required }: Body): MiddlewareHandler {
  const { schema } = content["application/json"];
  return async (c, next) => {
    const text = await c.req.text();
    const isAbsent = !required && text === "";
    const type = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
    if (!isAbsent && type !== "application/json")
      throw new AppError("unsupported_media_type", "Send the body as application/json.");
    const result = await schema.safeParseAsync(isAbsent ? {} : parseJson(text));
    if (!result.success) return answerInvalid(result.error, c);
    c.req.addValidatedData("json", result.data as object);
    return await next();
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError("invalid_json", "The body is not JSON.");
  }
}

function parser(target: "query" | "param" | "header", schema: Schema): MiddlewareHandler {
  return validator(target, async (value, c) => {
    const result = await schema.safeParseAsync(value);
    return result.success ? result.data : answerInvalid(result.error, c);
  });
}
