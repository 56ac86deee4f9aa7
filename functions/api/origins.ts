/** Which pages may use the api from a browser. Loaded by the first request that names its origin. */
import type { Config } from "@concierge/core";

const loopback = /^https?:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/;
const methods = "GET, POST, PUT, DELETE";
/** What the client and MCP send. */
const requestHeaders =
  "authorization, content-type, idempotency-key, last-event-id, x-request-id, traceparent, mcp-protocol-version";
const responseHeaders = "location, retry-after, x-request-id";
const preflightSeconds = 3600;

/** The configured origins, and in development every origin on this machine. */
export function isAllowedOrigin(
  { allowedOrigins, allowPrivateHosts }: Pick<Config, "allowedOrigins" | "allowPrivateHosts">,
  origin: string,
): boolean {
  return allowedOrigins.includes(origin) || (allowPrivateHosts && loopback.test(origin));
}

/**
 * Answers a preflight, and lets a page of an allowed origin read the answer. Other pages get the same answers without
 * these headers, so a browser hides them. There are no cookies, and so no credentials to allow.
 */
export async function allowOrigin(
  config: Pick<Config, "allowedOrigins" | "allowPrivateHosts">,
  origin: string,
  request: Request,
  answer: () => Promise<Response>,
): Promise<Response> {
  if (!isAllowedOrigin(config, origin)) return await answer();
  const isPreflight = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
  const response = isPreflight ? new Response(null, { status: 204 }) : await answer();
  const headers = new Headers(response.headers);
  headers.set("access-control-allow-origin", origin);
  headers.set("access-control-expose-headers", responseHeaders);
  headers.append("vary", "origin");
  // Otherwise a browser hides the answer from a page of another origin.
  headers.set("cross-origin-resource-policy", "cross-origin");
  if (isPreflight) {
    headers.set("access-control-allow-methods", methods);
    headers.set("access-control-allow-headers", requestHeaders);
    headers.set("access-control-max-age", String(preflightSeconds));
  }
  const { status } = response;
  return new Response(response.body, { status, headers });
}
