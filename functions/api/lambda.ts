import { pipeline } from "node:stream/promises";
import { errorTable } from "@concierge/core";
import type { Context, LambdaFunctionURLEvent } from "aws-lambda";
import type { Hono } from "hono/tiny";
import { flushTelemetry } from "../telemetry/trace.ts";
import type { Env } from "./env.ts";

/** Routes use only the path and the query, and a `Host` header can contain anything. */
const origin = "https://concierge";

/**
 * A streaming Lambda handler for the app. The runtime sends status and headers with the first write, so this always
 * writes once. Otherwise an answer with an empty body would never be sent.
 */
export function streamingHandler(app: Hono<Env>) {
  return awslambda.streamifyResponse(
    async (event: LambdaFunctionURLEvent, stream, lambdaContext: Context): Promise<void> => {
      const request = toRequest(event);
      const bindings = { lambdaContext, sourceIp: sourceIpOf(event) };
      const response = request ? await app.fetch(request, bindings) : malformedRequest();
      const out = awslambda.HttpResponseStream.from(stream, {
        statusCode: response.status,
        headers: Object.fromEntries(response.headers),
      });
      out.write("");
      if (response.body) await pipeline(chunksOf(response.body), out);
      else out.end();
      // The client has its answer.
      await flushTelemetry();
    },
  );
}

/** Undefined if the event is not a valid `Request`, for example with the method TRACE. */
export function toRequest({
  requestContext,
  rawPath,
  rawQueryString,
  headers,
  body,
  isBase64Encoded,
}: LambdaFunctionURLEvent): Request | undefined {
  const { method } = requestContext.http;
  // `Request` allows no body for these methods, and no route reads one.
  const hasBody = body !== undefined && method !== "GET" && method !== "HEAD";
  try {
    return new Request(`${origin}${rawPath}${rawQueryString ? `?${rawQueryString}` : ""}`, {
      method,
      headers: Object.entries(headers).flatMap(([name, value]): [string, string][] =>
        value === undefined ? [] : [[name, toAscii(value)]],
      ),
      ...(hasBody && { body: Buffer.from(body, isBase64Encoded ? "base64" : "utf8") }),
    });
  } catch {
    return undefined;
  }
}

/**
 * The caller's address. Behind CloudFront, which signs its requests, the connection is CloudFront's and a header that only
 * CloudFront can set has the caller's.
 */
export function sourceIpOf({ requestContext, headers }: LambdaFunctionURLEvent): string {
  const isSigned = "authorizer" in requestContext && requestContext.authorizer !== undefined;
  return (isSigned ? headers[viewerAddressHeader] : undefined) ?? requestContext.http.sourceIp;
}

const viewerAddressHeader = "x-viewer-address";

/** `Request` accepts only ASCII in header values. */
function toAscii(value: string): string {
  return /^[\x20-\x7e\t]*$/.test(value) ? value : encodeURIComponent(value);
}

function malformedRequest(): Response {
  const problem = {
    type: "urn:concierge:problem:invalid_request",
    ...errorTable.invalid_request,
    code: "invalid_request",
    detail: "The method, the path or a header is malformed.",
  };
  return Response.json(problem, { status: 400, headers: { "content-type": "application/problem+json" } });
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield chunk;
}
