import type { z } from "zod";

export interface Call {
  params: string[];
  query: URLSearchParams;
  body: AsyncIterable<Buffer>;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  header(name: string): string | undefined;
  json<T extends z.ZodType>(schema: T): Promise<z.output<T>>;
}

export type Reply =
  | { status: number; json: unknown; headers?: Record<string, string> }
  | { status: number; contentType: string; stream: AsyncGenerator<Buffer | string> };

export interface Route {
  /** Used by faults and counts. */
  name: string;
  method: string;
  /** A segment that starts with a colon is a parameter. */
  path: string;
  handle(call: Call): Promise<Reply>;
}

export function ok(json: unknown): Reply {
  return { status: 200, json };
}

export function match(
  routes: Route[],
  method: string,
  path: string,
): { route: Route; params: string[] } | undefined {
  const segments = path.split("/").filter(Boolean);
  for (const route of routes) {
    const params = route.method === method ? parameters(route.path, segments) : undefined;
    if (params) return { route, params };
  }
  return undefined;
}

function parameters(pattern: string, segments: string[]): string[] | undefined {
  const wanted = pattern.split("/").filter(Boolean);
  if (wanted.length !== segments.length) return undefined;
  const params: string[] = [];
  for (const [index, word] of wanted.entries()) {
    const segment = segments[index] ?? "";
    if (word.startsWith(":")) params.push(decode(segment));
    else if (word !== segment) return undefined;
  }
  return params;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
