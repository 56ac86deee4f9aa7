import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { json } from "node:stream/consumers";
import type { LambdaFunctionURLEvent } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFixture, until } from "../testing/stack.ts";
import { fixtureTopology, http } from "../testing/topology.ts";

let stack: Awaited<ReturnType<typeof startFixture>>;
const at = (path: string) => new URL(path, stack.url);

beforeAll(async () => {
  stack = await startFixture();
});
afterAll(() => stack[Symbol.asyncDispose]());

describe("the event", () => {
  test("has the shape of a Lambda function URL event, payload format 2.0", async () => {
    const before = Date.now();
    const response = await fetch(at("/event?a=1&b=x%20y&a=2"), {
      method: "POST",
      body: '{"prompt":"héllo"}',
      headers: {
        "content-type": "application/json",
        cookie: "c1=a; c2=b",
        "X-Two": "1",
        "user-agent": "test",
      },
    });
    const event = (await response.json()) as LambdaFunctionURLEvent;
    const { host, port } = new URL(stack.url);
    expect(event).toEqual({
      version: "2.0",
      routeKey: "$default",
      rawPath: "/event",
      rawQueryString: "a=1&b=x%20y&a=2",
      cookies: ["c1=a", "c2=b"],
      queryStringParameters: { a: "1,2", b: "x y" },
      headers: {
        accept: "*/*",
        "accept-encoding": expect.any(String),
        "accept-language": "*",
        connection: "keep-alive",
        "content-length": "19",
        "content-type": "application/json",
        host,
        "sec-fetch-mode": "cors",
        "user-agent": "test",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-port": port,
        "x-forwarded-proto": "http",
        "x-two": "1",
      },
      requestContext: {
        accountId: "anonymous",
        apiId: "local",
        domainName: host,
        domainPrefix: "local",
        http: {
          method: "POST",
          path: "/event",
          protocol: "HTTP/1.1",
          sourceIp: "127.0.0.1",
          userAgent: "test",
        },
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        routeKey: "$default",
        stage: "$default",
        time: expect.stringMatching(/^\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d \+0000$/),
        timeEpoch: expect.any(Number),
      },
      body: '{"prompt":"héllo"}',
      isBase64Encoded: false,
    });
    expect(event.requestContext.timeEpoch).toBeGreaterThanOrEqual(before);
  });

  test("joins repeated headers with a comma and does not normalize the path", async () => {
    const socket = connect(Number(at("/").port), "127.0.0.1");
    socket.write(
      "GET /event/%7Ea//b HTTP/1.1\r\nHost: h\r\nX-Two: 1\r\nx-two: 2\r\nConnection: close\r\n\r\n",
    );
    const answer = Buffer.concat(await socket.toArray()).toString();
    const event = JSON.parse(answer.slice(answer.indexOf("{"), answer.lastIndexOf("}") + 1));
    expect(event).toMatchObject({ rawPath: "/event/%7Ea//b", headers: { "x-two": "1,2" } });
  });

  test("has no body and no cookies for a plain GET", async () => {
    const event = await (await fetch(at("/event"))).json();
    expect(event).not.toHaveProperty("body");
    expect(event).not.toHaveProperty("cookies");
    expect(event).toMatchObject({ rawQueryString: "", isBase64Encoded: false });
  });

  test.each([
    ["application/problem+json", false],
    ["application/x-www-form-urlencoded", false],
    ["text/plain; charset=utf-8", false],
    ["application/octet-stream", true],
    ["multipart/form-data; boundary=x", true],
  ])("of a %s body is base64: %s", async (type, isBase64Encoded) => {
    const init = { method: "POST", body: "hello", headers: { "content-type": type } };
    const event = await (await fetch(at("/event"), init)).json();
    expect(event).toMatchObject({ isBase64Encoded, body: isBase64Encoded ? "aGVsbG8=" : "hello" });
  });

  test("comes with its own context", async () => {
    const context = (await (await fetch(at("/context"))).json()) as { remainingMs: number };
    expect(context).toMatchObject({
      awsRequestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      functionName: "concierge-dev-Api",
      functionVersion: "$LATEST",
      invokedFunctionArn: "arn:aws:lambda:us-east-1:000000000000:function:concierge-dev-Api",
      memoryLimitInMB: "128",
    });
    expect(context.remainingMs).toBeGreaterThan(15_000);
    expect(context.remainingMs).toBeLessThanOrEqual(20_000);
  });
});

describe("a body", () => {
  test("is passed on byte for byte", async () => {
    const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => index % 256);
    const response = await fetch(at("/echo"), { method: "POST", body: bytes });
    expect(response.status).toBe(201);
    expect(response.headers.get("x-fixture")).toBe("echo");
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(bytes);
  });

  test("over Lambda's limit is a 413 problem, and the next request works", async () => {
    const refused = await fetch(at("/echo"), { method: "POST", body: new Uint8Array(7 * 1024 ** 2) });
    expect(refused.status).toBe(413);
    expect(refused.headers.get("content-type")).toBe("application/problem+json");
    expect(await refused.json()).toMatchObject({ status: 413, code: "payload_too_large" });
    expect((await fetch(at("/healthz"))).status).toBe(200);
  });

  test("with an unsupported method is a 405 problem", async () => {
    const { promise: answered, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    httpRequest(at("/echo"), { method: "TRACE" }, resolve).on("error", reject).end();
    const answer = await answered;
    expect([answer.statusCode, answer.headers["content-type"]]).toEqual([405, "application/problem+json"]);
    expect(answer.headers.allow).toBe("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    expect(await json(answer)).toMatchObject({ status: 405, code: "method_not_allowed" });
  });

  test("is limited by its size in the event: 5 MB fit as text, not as base64", async () => {
    const post = (type: string) =>
      fetch(at("/echo"), {
        method: "POST",
        body: "x".repeat(5 * 1024 ** 2),
        headers: { "content-type": type },
      });
    const [text, binary] = await Promise.all([post("text/plain"), post("application/octet-stream")]);
    expect([text.status, binary.status]).toEqual([201, 413]);
    await Promise.all([text.text(), binary.text()]);
  });
});

describe("a response", () => {
  test("is passed on before the handler returns", async () => {
    const response = await fetch(at("/two-parts"));
    const parts = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect(await parts?.read()).toEqual({ done: false, value: "first" });
    await fetch(at("/release"), { method: "POST" });
    expect(await parts?.read()).toEqual({ done: false, value: "second" });
    expect(await parts?.read()).toEqual({ done: true, value: undefined });
  });

  test("of many megabytes arrives complete", async () => {
    const response = await fetch(at("/zeros/64"));
    expect((await response.arrayBuffer()).byteLength).toBe(64 * 1024 ** 2);
  });

  test("waits for a slow client", async () => {
    const request = httpRequest(at("/zeros/1024")).end();
    const [response] = await once(request, "response");
    response.pause();
    const written: unknown[] = [];
    await until(async () => {
      written.push(await (await fetch(at("/zeros"))).json());
      return written.at(-1) === written.at(-2);
    }, "the handler has stopped writing");
    expect(written.at(-1)).toBeLessThan(64);
    request.destroy();
  });

  test("contains all cookies", async () => {
    const response = await fetch(at("/cookies"));
    expect(response.status).toBe(204);
    expect(response.headers.getSetCookie()).toEqual(["a=1; Path=/", "b=2"]);
  });
});

describe("a handler without a framework", () => {
  const raw = () =>
    startFixture({
      topology: fixtureTopology({ Api: { ...http, handler: "packages/dev/testing/raw.handler" } }),
    });

  test("is not told that its client disconnected, as on Lambda", async () => {
    await using raws = await raw();
    const leave = new AbortController();
    const response = await fetch(new URL("/writes-on", raws.url), { signal: leave.signal });
    await response.body?.getReader().read();
    leave.abort();
    await fetch(new URL("/go-on", raws.url));
    await until(async () => (await raws.notes()).includes("written to the end"), "the handler is done");
  });

  test("sends its status only with a write, even an empty one, as on Lambda", async () => {
    await using raws = await raw();
    const silent = await fetch(new URL("/no-write", raws.url));
    expect([silent.status, await silent.json()]).toEqual([502, { message: "Internal Server Error" }]);
    const empty = await fetch(new URL("/empty-write", raws.url));
    expect([empty.status, await empty.text()]).toEqual([201, ""]);
  });

  test("can stream without a prelude, and answers 502 or breaks the connection when it fails", async () => {
    await using raws = await raw();
    const get = (path: string) => fetch(new URL(path, raws.url));
    const plain = await get("/plain-stream");
    expect([plain.status, plain.headers.get("content-type"), await plain.text()]).toEqual([
      200,
      "text/plain",
      "no prelude",
    ]);
    for (const path of ["/throw", "/not-ended"]) {
      const failed = await get(path);
      expect([failed.status, await failed.json()]).toEqual([502, { message: "Internal Server Error" }]);
    }
    const late = await get("/throw-late");
    expect(late.status).toBe(200);
    await expect(late.text()).rejects.toThrow();
    expect((await get("/healthz")).status).toBe(200);
  });
});

test("a handler that does not stream responds with its result", async () => {
  await using plain = await startFixture({
    topology: fixtureTopology({ Api: { ...http, handler: "packages/dev/testing/plain.handler" } }),
  });
  const json = await fetch(new URL("/healthz", plain.url));
  expect([json.headers.get("content-type"), await json.json()]).toEqual(["application/json", { ok: true }]);
  const binary = await fetch(new URL("/binary", plain.url));
  expect([binary.status, binary.headers.get("content-type")]).toEqual([203, "image/png"]);
  expect(binary.headers.getSetCookie()).toEqual(["a=1"]);
  expect([...new Uint8Array(await binary.arrayBuffer())]).toEqual([0, 255, 1]);
  expect((await fetch(new URL("/other", plain.url))).status).toBe(502);
});
