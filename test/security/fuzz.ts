import fc from "fast-check";

/** A schema of the OpenAPI document, as far as requests use it. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  format?: string;
}

export interface Operation {
  method: string;
  path: string;
  parameters: { name: string; in: "path" | "query" | "header"; required?: boolean; schema: Schema }[];
  body: Schema | undefined;
}

interface Document {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
}

interface Described {
  parameters?: Operation["parameters"];
  requestBody?: { content: Record<string, { schema: Schema }> };
}

export interface FuzzedRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

export function operationsOf(document: Document): Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      parameters,
      body: requestBody?.content["application/json"]?.schema,
    })),
  );
}

/** What clients send by mistake or on purpose. */
const hostileText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom(
    "",
    "\u0000",
    "../../etc/passwd",
    "%2e%2e%2f",
    "__proto__",
    "constructor",
    "\ud800",
    "a".repeat(5000),
    "1e999",
    "-0",
    "null",
    "\u202e",
    "😀".repeat(50),
  ),
);
const hostileJson = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  hostileText,
  fc.constantFrom<unknown>(Number.MAX_SAFE_INTEGER, -1, 0.1, 1e308, [], {}, null, true, { __proto__: null }),
  fc.constant(JSON.parse('{"__proto__": {"admin": true}, "constructor": {"prototype": 1}}')),
);

/** Requests of one operation: mostly as its schemas say, with parts that are not. */
export function requestsOf(
  operation: Operation,
  schemas: Record<string, Schema>,
  ids: readonly string[],
): fc.Arbitrary<FuzzedRequest> {
  const mostly = <T>(valid: fc.Arbitrary<T>, wild: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 6, arbitrary: valid }, { weight: 1, arbitrary: wild });
  const anyOfSchema = (schema: Schema): fc.Arbitrary<unknown> => mostly(validOf(schema), hostileJson);
  const textOf = (schema: Schema) => mostly(validOf(schema), hostileText).map(String);
  const inPath = operation.parameters.filter(({ in: place }) => place === "path");
  const inQuery = operation.parameters.filter(({ in: place }) => place === "query");
  const inHeader = operation.parameters.filter(({ in: place }) => place === "header");
  const record = (parameters: Operation["parameters"]) =>
    fc.record(Object.fromEntries(parameters.map(({ name, schema }) => [name, textOf(schema)])), {
      requiredKeys: [],
    }) as fc.Arbitrary<Record<string, string>>;

  return fc
    .record({
      path: fc.record(
        Object.fromEntries(inPath.map(({ name }) => [name, mostly(fc.constantFrom(...ids), hostileText)])),
      ),
      query: record(inQuery),
      wildQuery: mostly(fc.constant(undefined), fc.tuple(hostileText, hostileText)),
      headers: record(inHeader),
      wildHeaders: mostly(fc.constant({}), fc.dictionary(headerName, headerValue, { maxKeys: 3 })),
      type: mostly(fc.constant("application/json"), headerValue),
      body: operation.body ? anyOfSchema(operation.body) : mostly(fc.constant(undefined), hostileJson),
      broken: mostly(fc.constant(undefined), hostileText),
    })
    .map(({ path, query, wildQuery, headers, wildHeaders, type, body, broken }) => {
      const filled = operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => encode(String(Object(path)[name])));
      const pairs = [...Object.entries(query), ...(Array.isArray(wildQuery) ? [wildQuery] : [])];
      const search = pairs
        .map(([name, value]) => `${encode(String(name))}=${encode(String(value))}`)
        .join("&");
      const text = typeof broken === "string" ? broken : JSON.stringify(body);
      const hasBody = operation.method !== "GET" && text !== undefined;
      return {
        method: operation.method,
        path: search ? `${filled}?${search}` : filled,
        headers: ascii({
          ...Object(wildHeaders),
          ...headers,
          ...(hasBody && { "content-type": String(type) }),
        }),
        ...(hasBody && { body: text }),
      };
    });

  function validOf(schema: Schema): fc.Arbitrary<unknown> {
    const { $ref, anyOf, enum: values, type } = schema;
    if ($ref) return validOf(schemas[$ref.split("/").at(-1) ?? ""] ?? {});
    if (anyOf) return fc.oneof(...anyOf.map(validOf));
    if ("const" in schema) return fc.constant(schema.const);
    if (values) return fc.constantFrom(...values);
    switch ([type].flat()[0]) {
      case "string":
        return validText(schema);
      case "integer":
        return fc.integer(range(schema));
      case "number":
        return fc.double({ ...range(schema), noNaN: true, noDefaultInfinity: true });
      case "boolean":
        return fc.boolean();
      case "null":
        return fc.constant(null);
      case "array":
        return fc.array(schema.items ? validOf(schema.items) : fc.constant(1), {
          minLength: schema.minItems ?? 0,
          maxLength: Math.min(schema.maxItems ?? 4, 4),
        });
      case "object":
        return validObject(schema);
      default:
        return fc.jsonValue({ maxDepth: 1 });
    }
  }

  function validObject({ properties, required = [], additionalProperties }: Schema): fc.Arbitrary<unknown> {
    if (!properties) {
      const value = typeof additionalProperties === "object" ? validOf(additionalProperties) : fc.string();
      return fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }), value, { maxKeys: 4 });
    }
    const fields = Object.entries(properties).map(([name, field]) => [name, anyOfSchema(field)]);
    const record: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(fields);
    return fc.record(record, { requiredKeys: required as never[] });
  }
}

function validText({ pattern, format, minLength = 0, maxLength }: Schema): fc.Arbitrary<unknown> {
  if (format === "date-time")
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date(8e12) })
      .map((at) => at.toISOString());
  if (format === "date") return fc.constantFrom("2026-11-01", "0001-01-01", "9999-12-31");
  if (format === "uri") return fc.webUrl({ withQueryParameters: true });
  const plain = fc.string({ minLength: Math.max(minLength, 1), maxLength: Math.min(maxLength ?? 30, 30) });
  if (pattern === undefined) return plain;
  try {
    return fc.oneof(fc.stringMatching(new RegExp(pattern)), fc.constantFrom("default", "a", "main"));
  } catch {
    // Look-behind and the like: the generator does not know them all.
    return fc.oneof(plain, fc.constantFrom("default", "a", "main"));
  }
}

function range({ minimum, maximum }: Schema): { min: number; max: number } {
  return { min: minimum ?? -1_000_000, max: maximum ?? 1_000_000 };
}

const headerName = fc.constantFrom(
  "accept",
  "authorization",
  "x-forwarded-authorization",
  "x-request-id",
  "last-event-id",
  "idempotency-key",
  "content-encoding",
  "content-length",
  "host",
  "x-http-method-override",
  "range",
  "if-none-match",
  "origin",
);
const headerValue = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.constantFrom(
    "text/event-stream",
    "application/json",
    "Bearer x",
    "Bearer ",
    "*/*",
    "\t",
    "x".repeat(4000),
  ),
);

/** Header values as a connection can carry them. */
function ascii(headers: Record<string, string>): Record<string, string> {
  const clean = (value: string) => value.replace(/[^\x20-\x7e]/g, "").trim();
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, clean(value)]));
}

/** A lone surrogate cannot be encoded, and `.` and `..` are resolved before a request is sent. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(".", "%2E");
}
