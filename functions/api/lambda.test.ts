import { once } from "node:events";
import { Writable } from "node:stream";
import type { Context, LambdaFunctionURLEvent } from "aws-lambda";
import { Hono } from "hono/tiny";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createTestApi } from "../../test/testing/api.ts";
import type { Env } from "./env.ts";
import { sourceIpOf, streamingHandler, toRequest } from "./lambda.ts";

/** Like the runtime's stream: the prelude is sent with the first write, and only with it. */
class RuntimeStream extends Writable {
  prelude: { statusCode: number; headers: Record<string, string> } | undefined;
  sent: typeof this.prelude;
  body = "";

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.sent = this.prelude;
    this.body += chunk;
    done();
  }
}

beforeEach(() => {
  vi.stubGlobal("awslambda", {
    streamifyResponse: (handler: unknown) => handler,
    HttpResponseStream: {
      from: (stream: RuntimeStream, prelude: RuntimeStream["prelude"]) => Object.assign(stream, { prelude }),
    },
  });
});
afterEach(() => vi.unstubAllGlobals());

function anEvent(
  method: string,
  rawPath: string,
  overrides: Partial<LambdaFunctionURLEvent> = {},
): LambdaFunctionURLEvent {
  return {
    rawPath,
    rawQueryString: "",
    headers: { host: "not a host" },
    requestContext: { http: { method } },
    isBase64Encoded: false,
    ...overrides,
  } as LambdaFunctionURLEvent;
}

async function invoke(app: Pick<Hono<Env>, "fetch">, event: LambdaFunctionURLEvent) {
  const stream = new RuntimeStream();
  const finished = once(stream, "finish");
  const handler = streamingHandler(app as Hono<Env>);
  await handler(
    event,
    stream as unknown as awslambda.HttpResponseStream,
    {
      awsRequestId: "aws-1",
      getRemainingTimeInMillis: () => 60_000,
    } as Context,
  );
  await finished;
  return { status: stream.sent?.statusCode, headers: stream.sent?.headers ?? {}, body: stream.body };
}

describe("an answer", () => {
  const app = new Hono<Env>();
  app.get("/empty-stream", (c) => c.body(ReadableStream.from([]) as ReadableStream, 200));
  app.get("/none", (c) => c.body(null, 204));
  app.get("/some", (c) => c.text("some", 201));
  app.get("/broken", (c) => c.body(ReadableStream.from(breaking()) as ReadableStream));

  async function* breaking() {
    yield Buffer.from("start");
    throw new Error("the table is down");
  }

  it.each([
    ["/empty-stream", 200, ""],
    ["/none", 204, ""],
    ["/some", 201, "some"],
  ])("to %s is sent, with or without a body", async (path, status, body) => {
    expect(await invoke(app, anEvent("GET", path))).toMatchObject({ status, body });
  });

  it("that breaks fails the function, so that it does not look complete", async () => {
    const stream = new RuntimeStream();
    stream.on("error", () => {});
    const handler = streamingHandler(app);
    const answered = handler(
      anEvent("GET", "/broken"),
      stream as unknown as awslambda.HttpResponseStream,
      {} as Context,
    );
    await expect(answered).rejects.toThrow("the table is down");
  });
});

describe("a request", () => {
  const body = '{"prompt":"x"}';

  it.each(["GET", "HEAD"])("by %s has its body dropped and is answered normally", async (method) => {
    const event = anEvent(method, "/v1/tasks", { body, headers: { "content-type": "application/json" } });
    expect(toRequest(event)?.body).toBeNull();
    const { app } = createTestApi();
    expect((await invoke(app, event)).status).toBe(401);
    expect((await invoke(app, { ...event, rawPath: "/healthz" })).status).toBe(200);
  });

  it("keeps its body, its query and its headers", async () => {
    const text = "é".repeat(3);
    const request = toRequest(
      anEvent("POST", "/a%20b", {
        rawQueryString: "x=%zz&x=1",
        headers: { "x-text": "é" },
        body: Buffer.from(text).toString("base64"),
        isBase64Encoded: true,
      }),
    );
    expect(request?.url).toBe("https://concierge/a%20b?x=%zz&x=1");
    expect(request?.headers.get("x-text")).toBe("%C3%A9");
    expect(await request?.text()).toBe(text);
  });

  it.each([
    ["a method that no request can have (TRACE)", anEvent("TRACE", "/v1/tasks")],
    ["a malformed header", anEvent("GET", "/v1/tasks", { headers: { "a b": "c" } })],
  ])("with %s is refused with a problem document", async (_what, event) => {
    const { status, headers, body } = await invoke(createTestApi().app, event);
    expect([status, headers["content-type"]]).toEqual([400, "application/problem+json"]);
    expect(JSON.parse(body)).toMatchObject({ code: "invalid_request", status: 400 });
  });

  it("gets Lambda's request id if it has none", async () => {
    const { headers } = await invoke(createTestApi().app, anEvent("GET", "/healthz"));
    expect(headers["x-request-id"]).toBe("aws-1");
  });
});

describe("the caller's address", () => {
  const from = (authorizer: object | undefined, headers: Record<string, string> = {}) => {
    const event = anEvent("GET", "/healthz");
    const requestContext = { ...event.requestContext, ...(authorizer && { authorizer }) };
    const http = { ...requestContext.http, sourceIp: "198.51.100.7" };
    return sourceIpOf({ ...event, headers, requestContext: { ...requestContext, http } });
  };
  const header = { "x-viewer-address": "203.0.113.9" };

  it("is the connection's, and a header says nothing", () => {
    expect(from(undefined)).toBe("198.51.100.7");
    expect(from(undefined, header)).toBe("198.51.100.7");
  });

  it("is CloudFront's word behind CloudFront, which signs its requests", () => {
    expect(from({ iam: {} }, header)).toBe("203.0.113.9");
  });
});
