import { pipeline } from "node:stream/promises";
import type { Context, LambdaFunctionURLEvent } from "aws-lambda";
import type { Hono } from "hono/tiny";
import type { Env } from "./env.ts";

/** Only the path and the query of a request matter here, and a `Host` header may hold anything. */
const origin = "https://concierge";

/**
 * A streaming Lambda handler for the app. The runtime sends status and headers with the first write, so there always is
 * one: an answer whose body is empty would otherwise never be sent.
 */
export function streamingHandler(app: Hono<Env>) {
  return awslambda.streamifyResponse(
    async (event: LambdaFunctionURLEvent, stream, lambdaContext: Context): Promise<void> => {
      const request = toRequest(event);
      const response = request ? await app.fetch(request, { lambdaContext }) : notARequest();
      const out = awslambda.HttpResponseStream.from(stream, {
        statusCode: response.status,
        headers: Object.fromEntries(response.headers),
      });
      out.write("");
      if (response.body) await pipeline(chunksOf(response.body), out);
      else out.end();
    },
  );
}

/** Undefined for what no `Request` can be made of, such as the method TRACE. */
export function toRequest({
  requestContext,
  rawPath,
  rawQueryString,
  headers,
  body,
  isBase64Encoded,
}: LambdaFunctionURLEvent): Request | undefined {
  const { method } = requestContext.http;
  // `Request` takes no body for these, and no route of ours reads one.
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

/** A header's value has to be ASCII. */
function toAscii(value: string): string {
  return /^[\x20-\x7e\t]*$/.test(value) ? value : encodeURIComponent(value);
}

function notARequest(): Response {
  const problem = {
    type: "urn:concierge:problem:invalid_request",
    title: "The request is not valid",
    status: 400,
    code: "invalid_request",
    detail: "The method, the path or a header of the request cannot be read.",
  };
  return Response.json(problem, { status: 400, headers: { "content-type": "application/problem+json" } });
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield chunk;
}
