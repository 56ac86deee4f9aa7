/** Converts a request into the event of a Lambda function URL (payload format 2.0). */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { LambdaFunctionURLEvent } from "aws-lambda";

/** Lambda's limit. */
export const maxEventBytes = 6 * 1024 * 1024;

const textType =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml)\b|application\/(?:javascript|x-www-form-urlencoded)\b)/i;

export function createHttpEvent(request: IncomingMessage, body: Buffer, now: Date): LambdaFunctionURLEvent {
  const [rawPath = "/", rawQueryString = ""] = splitOnce(request.url ?? "/", "?");
  const { cookie, ...headers } = joinedHeaders(request);
  const host = headers.host ?? "localhost";
  const sourceIp = request.socket.remoteAddress ?? "127.0.0.1";
  const isBase64Encoded = body.length > 0 && !textType.test(headers["content-type"] ?? "");
  return {
    version: "2.0",
    routeKey: "$default",
    rawPath,
    rawQueryString,
    ...(cookie && { cookies: cookie.split(/; */) }),
    headers: {
      ...headers,
      "x-forwarded-for": sourceIp,
      "x-forwarded-port": String(request.socket.localPort ?? ""),
      "x-forwarded-proto": "http",
    },
    ...(rawQueryString && { queryStringParameters: queryParameters(rawQueryString) }),
    requestContext: {
      accountId: "anonymous",
      apiId: "local",
      domainName: host,
      domainPrefix: "local",
      http: {
        method: request.method ?? "GET",
        path: rawPath,
        protocol: `HTTP/${request.httpVersion}`,
        sourceIp,
        userAgent: headers["user-agent"] ?? "",
      },
      requestId: randomUUID(),
      routeKey: "$default",
      stage: "$default",
      time: commonLogTime(now),
      timeEpoch: now.getTime(),
    },
    ...(body.length > 0 && { body: body.toString(isBase64Encoded ? "base64" : "utf8") }),
    isBase64Encoded,
  };
}

function joinedHeaders(request: IncomingMessage): Record<string, string> {
  const headers = Object.entries(request.headersDistinct);
  return Object.fromEntries(
    headers.map(([name, values = []]) => [name, values.join(name === "cookie" ? "; " : ",")]),
  );
}

function queryParameters(query: string): Record<string, string> {
  const parameters = new URLSearchParams(query);
  return Object.fromEntries([...parameters.keys()].map((name) => [name, parameters.getAll(name).join(",")]));
}

/** `16/Nov/2026:02:05:10 +0000` */
function commonLogTime(now: Date): string {
  const [, day, month, year, time] = now.toUTCString().split(" ");
  return `${day}/${month}/${year}:${time} +0000`;
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + separator.length)];
}
