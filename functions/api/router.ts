import { AppError, type ErrorCode } from "@concierge/core";
import type { Handler, MiddlewareHandler, TypedResponse } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { Hono } from "hono/tiny";
import type { StatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import { validator } from "hono/validator";
import { en } from "zod/locales";
import * as z from "zod/mini";
import type { Env } from "./env.ts";
import { answerInvalid } from "./problem.ts";

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

/** A route as the document has it, and as what it is sent is parsed. */
export interface Route {
  readonly method: "get" | "post" | "put" | "delete";
  readonly path: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  /** Not in the document. */
  readonly hide?: boolean;
  readonly request?: {
    readonly params?: Schema;
    readonly query?: Schema;
    readonly headers?: Schema;
    readonly body?: Body;
  };
  readonly responses: Readonly<Record<string, Answer>>;
  /** How it refuses, beside what every route of its kind does. */
  readonly refuses?: readonly ErrorCode[];
}

/** What a handler finds parsed. */
interface Parsed<R extends Route> {
  out: Part<R, { params: Schema }, "params", "param"> &
    Part<R, { query: Schema }, "query", "query"> &
    Part<R, { headers: Schema }, "headers", "header"> &
    (R["request"] extends { body: { content: Json<infer T> } } ? { json: z.output<T> } : object);
}

type Part<R extends Route, Has, Name extends keyof Has, Target extends string> = R["request"] extends Has
  ? { [T in Target]: z.output<R["request"][Name]> }
  : object;

/** What a handler may answer: the statuses that are written down, each with its own body. */
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

/** Routes that parse what they are sent with the schemas they are described by. */
export class Router extends Hono<Env> {
  /** What the document is made of. */
  readonly described: Route[] = [];
  // The one `methodNotAllowed` brings anyway; tiny's own would take `/v1/tasks/` for `/v1/tasks`.
  override router: Hono<Env>["router"] = new TrieRouter();

  openapi<R extends Route>(
    route: R,
    handler: Handler<Env, string, Parsed<R>, Answers<R> | Promise<Answers<R>>>,
  ): void {
    if (!route.hide) this.described.push(route);
    this.on([route.method], [routingPath(route.path)], ...parsers(route), handler);
  }
}

export function createRoute<const R extends Route>(route: R): R {
  return route;
}

/** JSON, as a route is sent it or answers it. */
export function json<T extends Schema>(schema: T, description: string) {
  return { description, content: { "application/json": { schema } } };
}

export const security = [{ key: [] }];

/** All ways a route refuses: its own, and those that follow from what it is sent. */
export function refusalsOf({ method, request = {}, security, refuses = [] }: Route): ErrorCode[] {
  const { params, query, headers } = request;
  const mayHaveBody = method !== "get";
  const isParsed = params || query || headers || takesBody(method);
  return [
    ...(isParsed ? (["invalid_request"] as const) : []),
    ...(takesBody(method) ? (["invalid_json", "unsupported_media_type"] as const) : []),
    ...(mayHaveBody ? (["payload_too_large"] as const) : []),
    ...(security ? (["unauthorized"] as const) : []),
    ...(params ? (["not_found"] as const) : []),
    ...refuses,
    "method_not_allowed",
    "internal",
  ];
}

/** A route that is sent none still says so when it is sent one. */
function takesBody(method: Route["method"]): boolean {
  return method === "post" || method === "put";
}

function routingPath(path: string): string {
  return path.replaceAll(/\/{(.+?)}/g, "/:$1");
}

function parsers({ method, request = {} }: Route): MiddlewareHandler[] {
  const { query, params, headers, body = takesBody(method) ? nothing : undefined } = request;
  return [
    ...(query ? [parser("query", query)] : []),
    ...(params ? [parser("param", params)] : []),
    ...(headers ? [parser("header", headers)] : []),
    ...(body ? [bodyParser(body)] : []),
  ];
}

/** What a route is sent that asks for no body: none, or one without a field. */
const nothing: Body = { required: false, ...json(z.strictObject({}), "Nothing") };

/** A body says that it is JSON; one that is not there is one without a field, where none has to be. */
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
