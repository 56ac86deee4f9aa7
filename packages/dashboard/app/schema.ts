/** Validates values with the schemas of the API's own OpenAPI document: the part of JSON Schema that it uses. */
export interface JsonSchema {
  $ref?: string;
  type?: string;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  enum?: unknown[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  anyOf?: JsonSchema[];
  format?: string;
}

export interface ApiDocument {
  components: { schemas: Record<string, JsonSchema> };
}

export interface Issue {
  path: string;
  message: string;
}

export function validate(schema: JsonSchema | undefined, value: unknown, path = ""): Issue[] {
  if (!schema || value === undefined) return [];
  const issue = (message: string) => [{ path, message }];
  if (schema.enum && !schema.enum.includes(value)) return issue(`must be one of ${schema.enum.join(", ")}`);
  if (typeof value === "string") return validateText(schema, value).flatMap(issue);
  if (typeof value === "number") return validateNumber(schema, value).flatMap(issue);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const fields = value as Record<string, unknown>;
  const missing = (schema.required ?? []).filter((name) => fields[name] === undefined);
  return [
    ...missing.map((name) => ({ path: join(path, name), message: "is required" })),
    ...Object.entries(fields).flatMap(([name, field]) =>
      validate(schema.properties?.[name], field, join(path, name)),
    ),
  ];
}

function validateText(schema: JsonSchema, value: string): string[] {
  if (schema.minLength !== undefined && value.length < schema.minLength) {
    return [schema.minLength === 1 ? "is required" : `needs at least ${schema.minLength} characters`];
  }
  if (schema.maxLength !== undefined && value.length > schema.maxLength) {
    return [`can have at most ${schema.maxLength} characters`];
  }
  if (schema.format === "uri" && !URL.canParse(value)) return ["must be a URL"];
  if (schema.pattern !== undefined && !new RegExp(schema.pattern, "u").test(value)) {
    return ["has characters that are not allowed"];
  }
  return [];
}

function validateNumber(schema: JsonSchema, value: number): string[] {
  if (Number.isNaN(value)) return ["must be a number"];
  if (schema.type === "integer" && !Number.isInteger(value)) return ["must be a whole number"];
  if (schema.minimum !== undefined && value < schema.minimum) return [`must be at least ${schema.minimum}`];
  if (schema.maximum !== undefined && value > schema.maximum) return [`must be at most ${schema.maximum}`];
  return [];
}

function join(path: string, name: string): string {
  return path ? `${path}.${name}` : name;
}
