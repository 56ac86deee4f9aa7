/** Builds the OpenAPI document from the routes and their schemas. Loaded by the first request for it. */
import * as z from "zod";
import { problems } from "../problem.ts";
import { type Route, refusalsOf } from "./documented-router.ts";

type Json = Record<string, unknown>;
type Content = Readonly<Record<string, { schema: unknown }>>;

interface Described {
  description: string;
  required?: boolean | undefined;
  content?: Content | undefined;
  headers?: unknown;
}

export interface Info {
  title: string;
  version: string;
  description: string;
}

export function createDocument(info: Info, routes: readonly Route[]): Json {
  const schemas: Json = {};
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const { method, path, request = {}, responses, security, tags, summary, description } = route;
    const parameters = [
      ...parametersIn("path", request.params),
      ...parametersIn("query", request.query),
      ...parametersIn("header", request.headers),
    ];
    const all = { ...responses, ...problems(...refusalsOf(route)) };
    const answers = Object.entries(all).map(([status, answer]) => [status, described(answer as Described)]);
    paths[path] = {
      ...paths[path],
      [method]: {
        ...(security && { security }),
        ...(tags && { tags }),
        summary,
        ...(description && { description }),
        ...(parameters.length > 0 && { parameters }),
        ...(request.body && { requestBody: described(request.body as Described) }),
        responses: Object.fromEntries(answers),
      },
    };
  }
  const securitySchemes = { key: { type: "http", scheme: "bearer" } };
  return { openapi: "3.1.0", info, components: { securitySchemes, schemas }, paths };

  function parametersIn(place: string, schema: unknown): Json[] {
    if (schema === undefined) return [];
    return fields(schema).map(([name, field, required]) => ({ name, in: place, required, schema: field }));
  }

  function described({ description, required, content, headers }: Described): Json {
    const media = Object.entries(content ?? {}).map(([type, { schema }]) => [
      type,
      { schema: convert(schema) },
    ]);
    const named = headers === undefined ? [] : fields(headers);
    return {
      description,
      ...(required !== undefined && { required }),
      ...(named.length > 0 && {
        headers: Object.fromEntries(named.map(([name, schema, required]) => [name, { required, schema }])),
      }),
      ...(media.length > 0 && { content: Object.fromEntries(media) }),
    };
  }

  function fields(schema: unknown): [name: string, schema: unknown, required: boolean][] {
    const { properties = {}, required = [] } = convert(schema) as { properties?: Json; required?: string[] };
    return Object.entries(properties).map(([name, field]) => [name, field, required.includes(name)]);
  }

  /** Registered schemas become components, and their uses refer to them. */
  function convert(schema: unknown): unknown {
    // Zod writes a registered schema as a reference only inside another schema.
    const wrapped = z.array(schema as z.ZodType);
    const { items, $defs = {} } = z.toJSONSchema(wrapped, { io: "input", unrepresentable: "any", override });
    for (const [name, definition] of Object.entries($defs)) schemas[name] = withComponents(definition);
    return withComponents(items);
  }
}

/** Drops what the format or the type already says. */
function override({ jsonSchema: schema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (schema.format?.startsWith("date")) delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
}

function withComponents(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key === "$ref") return value.replace("#/$defs/", "#/components/schemas/");
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    const { id, ...rest } = value;
    return typeof id === "string" ? rest : value;
  });
}
