import { describe, expect, it, vi } from "vitest";
import { createClient } from "./client.ts";
import { ConciergeError, parseRetryAfter } from "./errors.ts";
import { dropped, fakeServer, json, problem, type Reply } from "./testing/fake-server.ts";

const task = { id: "task_1", status: "queued" };

function setUp(...replies: Reply[]) {
  const server = fakeServer(...replies);
  const retried: string[] = [];
  const client = createClient({
    url: "http://concierge.test/base/",
    apiKey: "ck_test",
    fetch: server.fetch,
    onRetry: ({ error }) => retried.push(error.code),
  });
  return { ...server, client, retried };
}

const caught = async (promise: Promise<unknown>): Promise<ConciergeError> => {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (error instanceof ConciergeError) return error;
  throw new Error(`expected a ConciergeError, got ${String(error)}`);
};

describe("a call", () => {
  it("sends the key, the path below the URL, and the body as JSON", async () => {
    const { client, asked } = setUp(json(task, 202));
    await client.continue("task/1", { prompt: "on" });
    const [request] = asked;
    expect(request?.url).toBe("http://concierge.test/base/v1/tasks/task%2F1/continue");
    expect(request?.method).toBe("POST");
    expect(request?.headers.get("authorization")).toBe("Bearer ck_test");
    expect(request?.body).toBe('{"prompt":"on"}');
  });

  it("leaves out query values that are not set", async () => {
    const { client, asked } = setUp(json({ items: [], cursor: null }));
    await client.sessions.list({ limit: 5, probe: undefined });
    expect(asked[0]?.url).toBe("http://concierge.test/base/v1/sessions?limit=5");
  });

  it("refuses a key that cannot be a header, without showing it", () => {
    const create = () => createClient({ url: "http://concierge.test", apiKey: "secret\nkey" });
    expect(create).toThrow(TypeError);
    expect(create).not.toThrow(/secret/);
  });
});

describe("an error", () => {
  it("has the code, the status, the detail and the whole problem", async () => {
    const issues = [{ path: "prompt", message: "required" }];
    const { client } = setUp(problem(400, "invalid_request", { "x-request-id": "abc" }, { issues }));
    const error = await caught(client.get("task_1"));
    expect(error).toMatchObject({ code: "invalid_request", status: 400, requestId: "abc" });
    expect(error.detail).toBe("invalid_request.");
    expect(error.problem?.issues).toEqual(issues);
  });

  it("of a server that is not Concierge says so", async () => {
    const { client } = setUp(new Response("<html>", { status: 403 }));
    expect(await caught(client.pool())).toMatchObject({
      code: "unexpected_response",
      status: 403,
      problem: undefined,
    });
  });

  it("of a redirect names its target", async () => {
    const { client } = setUp(new Response(null, { status: 301, headers: { location: "https://there" } }));
    expect((await caught(client.pool())).detail).toContain("https://there");
  });

  it("of a page with status 200 is an unexpected response", async () => {
    const { client } = setUp(new Response("<html>"));
    expect((await caught(client.pool())).code).toBe("unexpected_response");
  });

  it("of an aborted call is the caller's own reason", async () => {
    const { client } = setUp(json({}));
    const reason = new Error("enough");
    await expect(client.pool({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  it("of a server that does not answer in time is a timeout", async () => {
    const never: typeof fetch = (_, init) =>
      new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    const client = createClient({ url: "http://x", apiKey: "k", fetch: never, timeoutMs: 10, retries: 0 });
    expect((await caught(client.pool())).code).toBe("timeout");
  });
});

describe("a retry", () => {
  it.each(["start", "continue"] as const)("of %s sends the same idempotency key", async (verb) => {
    const { client, asked, retried } = setUp(dropped(), json(task, 202));
    const request = { prompt: "x" };
    await (verb === "start" ? client.start(request) : client.continue("task_1", request));
    const keys = asked.map(({ headers }) => headers.get("idempotency-key"));
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys).toEqual([keys[0], keys[0]]);
    expect(retried).toEqual(["connection_failed"]);
  });

  it("is not shared by two starts", async () => {
    const { client, asked } = setUp(json(task, 202));
    await client.start({ prompt: "x" });
    await client.start({ prompt: "x" });
    expect(new Set(asked.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(2);
  });

  it("repeats a read after a broken connection, a broken body and a 502", async () => {
    const broken = () =>
      new Response(new ReadableStream({ pull: (controller) => controller.error(dropped()) }));
    const { client, asked } = setUp(
      dropped(),
      broken,
      new Response("bad gateway", { status: 502 }),
      json({ total: 1 }),
    );
    expect(await client.pool()).toEqual({ total: 1 });
    expect(asked).toHaveLength(4);
  });

  it("never repeats a call that may have had its effect", async () => {
    const calls = [
      (client: ReturnType<typeof setUp>["client"]) => client.stop("task_1"),
      (client: ReturnType<typeof setUp>["client"]) => client.sessions.exec("s", { command: "rm" }),
      (client: ReturnType<typeof setUp>["client"]) => client.sessions.delete("s"),
      (client: ReturnType<typeof setUp>["client"]) => client.keys.create(),
      (client: ReturnType<typeof setUp>["client"]) => client.reap(),
    ];
    for (const failure of [dropped(), problem(503, "provider_unavailable", { "retry-after": "1" })])
      for (const call of calls) {
        const { client, asked } = setUp(failure);
        await caught(call(client));
        expect(asked).toHaveLength(1);
      }
  });

  it("waits as long as a 429 asks, for any call", async () => {
    vi.useFakeTimers();
    const { client, asked } = setUp(problem(429, "no_room", { "retry-after": "5" }), json({ exitCode: 0 }));
    const done = client.sessions.exec("s", { command: "true" });
    await vi.advanceTimersByTimeAsync(4_999);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1_000);
    await done;
    expect(asked).toHaveLength(2);
    vi.useRealTimers();
  });

  it("gives up after four and reports the last error with its wait", async () => {
    vi.useFakeTimers();
    const { client, asked } = setUp(problem(429, "no_room", { "retry-after": "5" }));
    const error = caught(client.start({ prompt: "x" }));
    await vi.runAllTimersAsync();
    expect(await error).toMatchObject({ code: "no_room", status: 429, retryAfterMs: 5_000 });
    expect(asked).toHaveLength(5);
    vi.useRealTimers();
  });

  it("is left to the caller if the server asks for a long wait", async () => {
    const { client, asked } = setUp(problem(503, "provider_unavailable", { "retry-after": "600" }));
    expect((await caught(client.pool())).retryAfterMs).toBe(600_000);
    expect(asked).toHaveLength(1);
  });

  it("is not made for refusals", async () => {
    for (const [status, code] of [
      [401, "unauthorized"],
      [404, "not_found"],
      [409, "session_busy"],
    ] as const) {
      const { client, asked } = setUp(problem(status, code));
      expect((await caught(client.start({ prompt: "x" }))).code).toBe(code);
      expect(asked).toHaveLength(1);
    }
  });
});

it("wait asks again until the turn has ended", async () => {
  const { client, asked } = setUp(
    json(task),
    json({ ...task, status: "running" }),
    json({ ...task, status: "timed_out" }),
  );
  expect((await client.wait("task_1")).status).toBe("timed_out");
  expect(asked).toHaveLength(3);
  expect(asked[0]?.url).toContain("waitMs=25000");
});

it("Retry-After is read as seconds or as a date", () => {
  const now = Date.parse("2026-11-18T00:00:00Z");
  expect(parseRetryAfter("2", now)).toBe(2_000);
  expect(parseRetryAfter("Wed, 18 Nov 2026 00:00:03 GMT", now)).toBe(3_000);
  expect(parseRetryAfter("soon", now)).toBeUndefined();
  expect(parseRetryAfter(null, now)).toBeUndefined();
});
