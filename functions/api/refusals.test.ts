import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../../test/testing/api.ts";

let api: TestApi;
beforeEach(() => {
  api = createTestApi();
});

/** Every refusal is a problem document with matching status, code and type. */
function expectProblem(answer: Awaited<ReturnType<TestApi["request"]>>, status: number, code: string): void {
  expect([answer.status, answer.json?.code]).toEqual([status, code]);
  expect(answer.type).toBe("application/problem+json");
  expect(answer.json).toMatchObject({ type: `urn:concierge:problem:${code}`, status });
  expect(answer.json.title).toEqual(expect.any(String));
  expect(answer.json.detail).toEqual(expect.any(String));
}

const postTask = (body: unknown, headers: Record<string, string> = {}) =>
  api.request("POST", "/v1/tasks", { body, headers });

describe("an invalid body is refused:", () => {
  it.each([
    ["an unknown field", { prompt: "x", color: "red" }, ""],
    ["an unknown field in limits", { prompt: "x", limits: { speed: 1 } }, "limits"],
    ["no prompt", {}, "prompt"],
    ["an empty prompt", { prompt: "" }, "prompt"],
    ["a prompt of the wrong type", { prompt: 7 }, "prompt"],
    ["a prompt that is too long", { prompt: "x".repeat(128 * 1024 + 1) }, "prompt"],
    ["an unknown agent", { prompt: "x", agent: "hal" }, "agent"],
    ["a bad session key", { prompt: "x", sessionKey: "a b" }, "sessionKey"],
    ["a session key that is too long", { prompt: "x", sessionKey: "a".repeat(65) }, "sessionKey"],
    ["a session key that is a path", { prompt: "x", sessionKey: "../etc" }, "sessionKey"],
    ["keepAlive of the wrong type", { prompt: "x", keepAlive: "yes" }, "keepAlive"],
    [
      "a duration that is not an integer",
      { prompt: "x", limits: { maxDurationMs: 1500.5 } },
      "limits.maxDurationMs",
    ],
    ["a duration that is too short", { prompt: "x", limits: { maxDurationMs: 1 } }, "limits.maxDurationMs"],
    ["a duration over a day", { prompt: "x", limits: { maxDurationMs: 86_400_001 } }, "limits.maxDurationMs"],
    ["a cost below zero", { prompt: "x", limits: { maxCostUsd: -1 } }, "limits.maxCostUsd"],
    ["a prompt with a NUL", { prompt: "x\0y" }, "prompt"],
    ["a variable with a NUL", { prompt: "x", env: { A: "b\0c" } }, "env.A"],
    ["the session key `..`", { prompt: "x", sessionKey: ".." }, "sessionKey"],
    ["the session key `.`", { prompt: "x", sessionKey: "." }, "sessionKey"],
    ["a bad variable name", { prompt: "x", env: { "A B": "c" } }, "env.A B"],
    ["a reserved variable name", { prompt: "x", env: { CONCIERGE_TURN: "c" } }, "env"],
    ["env that is too large", { prompt: "x", env: { A: "x".repeat(40_000) } }, "env"],
    ["metadata of the wrong type", { prompt: "x", metadata: { a: 1 } }, "metadata.a"],
    ["a list", [], ""],
    ["null", null, ""],
  ])("%s", async (_what, body, path) => {
    const answer = await postTask(body);
    expectProblem(answer, 400, "invalid_request");
    expect(answer.json.issues).toEqual(expect.arrayContaining([{ path, message: expect.any(String) }]));
    expect(api.sent).toEqual([]);
  });

  it("text that is not JSON", async () => {
    expectProblem(await postTask("{prompt: echo"), 400, "invalid_json");
  });

  it("an empty body", async () => {
    expectProblem(await postTask(""), 400, "invalid_json");
  });

  it("one that does not say it is JSON", async () => {
    expectProblem(await postTask("{}", { "content-type": "text/plain" }), 415, "unsupported_media_type");
    expectProblem(await api.request("POST", "/v1/tasks", {}), 415, "unsupported_media_type");
  });

  it.each([
    ["PUT", "/v1/sessions/room"],
    ["POST", "/v1/sessions/room/reset"],
    ["POST", "/v1/tasks/task_01mcc5rm001wbyh8rvy2srg4p0/stop"],
    ["POST", "/v1/snapshot"],
    ["POST", "/v1/reap"],
  ])("a body with fields for %s %s, which takes none", async (method, path) => {
    const send = async (body: string | undefined, type: string | undefined) =>
      await api.request(method, path, {
        ...(body !== undefined && { body }),
        ...(type && { headers: { "content-type": type } }),
      });
    expectProblem(await send('{"x":1}', "application/json"), 400, "invalid_request");
    expectProblem(await send("{x", "application/json"), 400, "invalid_json");
    expectProblem(await send("{}", "text/plain"), 415, "unsupported_media_type");
    for (const body of [undefined, "", "{}"])
      expect((await send(body, "application/json")).status).not.toBe(400);
    expect((await send(undefined, undefined)).status).not.toBe(415);
  });

  it("a body over 1 MB", async () => {
    expectProblem(await postTask({ prompt: "x".repeat(1024 * 1024) }), 413, "payload_too_large");
  });
});

describe("an invalid query or header is refused:", () => {
  it.each([
    ["/v1/tasks?cursor=nonsense", "invalid_cursor"],
    ["/v1/tasks?cursor=", "invalid_cursor"],
    ["/v1/tasks?cursor=key_01mcc5rm001wbyh8rvy2srg4p0", "invalid_cursor"],
    ["/v1/tasks?limit=0", "invalid_request"],
    ["/v1/tasks?limit=101", "invalid_request"],
    ["/v1/tasks?limit=many", "invalid_request"],
    ["/v1/tasks?status=sleeping", "invalid_request"],
    ["/v1/tasks?sessionKey=a%20b", "invalid_request"],
    ["/v1/tasks?colour=red", "invalid_request"],
    ["/v1/keys?cursor=nonsense", "invalid_cursor"],
  ])("%s", async (path, code) => {
    expectProblem(await api.request("GET", path), 400, code);
  });

  it("on an existing task", async () => {
    const { id } = (await postTask({ prompt: "x" })).json;
    expectProblem(await api.request("GET", `/v1/tasks/${id}?waitMs=25001`), 400, "invalid_request");
    expectProblem(await api.request("GET", `/v1/tasks/${id}?waitMs=-1`), 400, "invalid_request");
    expectProblem(await api.request("GET", `/v1/tasks/${id}/events?after=nonsense`), 400, "invalid_cursor");
    expectProblem(await api.request("GET", `/v1/tasks/${id}/output?turn=0`), 400, "invalid_request");
  });

  it("a malformed idempotency key", async () => {
    const answer = await postTask({ prompt: "x" }, { "idempotency-key": "x".repeat(129) });
    expectProblem(answer, 400, "invalid_request");
  });
});

describe("authorization", () => {
  const guarded: [string, string][] = [
    ["POST", "/v1/tasks"],
    ["GET", "/v1/tasks"],
    ["GET", "/v1/tasks/task_x"],
    ["GET", "/v1/tasks/task_x/events"],
    ["GET", "/v1/tasks/task_x/output"],
    ["POST", "/v1/keys"],
    ["GET", "/v1/keys"],
    ["DELETE", "/v1/keys/key_x"],
    ["POST", "/v1/runner/output"],
    ["POST", "/v1/runner/beat"],
    ["POST", "/v1/runner/end"],
  ];

  it.each(guarded)("%s %s refuses callers without a valid key", async (method, path) => {
    for (const key of ["", "wrong", "ck_key_01mcc5rm001wbyh8rvy2srg4p0_"]) {
      const answer = await api.request(method, path, { key });
      expectProblem(answer, 401, "unauthorized");
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  it("only the Bearer scheme is accepted", async () => {
    const headers = { authorization: `Basic ${Buffer.from("admin:key").toString("base64")}` };
    expectProblem(await api.request("GET", "/v1/tasks", { key: "", headers }), 401, "unauthorized");
  });

  it("a user's key works until it is revoked", async () => {
    const { json } = await api.request("POST", "/v1/keys", { body: { userId: "bob" } });
    expect((await api.request("GET", "/v1/tasks", { key: json.key })).status).toBe(200);
    expectProblem(
      await api.request("GET", "/v1/tasks", { key: `${json.key.slice(0, -1)}!` }),
      401,
      "unauthorized",
    );
    expect((await api.request("DELETE", `/v1/keys/${json.id}`)).status).toBe(204);
    expectProblem(await api.request("GET", "/v1/tasks", { key: json.key }), 401, "unauthorized");
    expectProblem(await api.request("DELETE", `/v1/keys/${json.id}`), 404, "not_found");
  });

  it("keys are shown once and stored as hashes", async () => {
    const { json, status } = await api.request("POST", "/v1/keys", { body: { userId: "bob" } });
    expect(status).toBe(201);
    const secret = json.key.slice(`ck_${json.id}_`.length);
    const listed = await api.request("GET", "/v1/keys");
    expect(listed.json.items).toMatchObject([{ id: json.id, userId: "bob", admin: false, name: null }]);
    expect(listed.text).not.toContain(secret);
    expect(JSON.stringify(await api.deps.store.getKey(json.id))).not.toContain(secret);
  });

  it("only admins create keys for other users, or admin keys", async () => {
    const bob = await api.keyFor("bob");
    expectProblem(
      await api.request("POST", "/v1/keys", { key: bob, body: { userId: "x" } }),
      403,
      "forbidden",
    );
    expectProblem(
      await api.request("POST", "/v1/keys", { key: bob, body: { admin: true } }),
      403,
      "forbidden",
    );
    const { json } = await api.request("POST", "/v1/keys", { body: { userId: "eve", admin: true } });
    expect((await api.request("GET", "/v1/keys", { key: json.key })).status).toBe(200);
  });

  it.each([
    { userId: "a b" },
    { userId: "" },
    { scopes: [] },
    { scopes: ["all"] },
    { expiresAt: "soon" },
    { userId: "a", role: "x" },
    { userId: "a", admin: "yes" },
  ])("no key is created for %j", async (body) => {
    expectProblem(await api.request("POST", "/v1/keys", { body }), 400, "invalid_request");
  });

  it("another user's task looks like one that does not exist", async () => {
    const { id } = (await postTask({ prompt: "x" })).json;
    const bob = await api.keyFor("bob");
    for (const path of ["", "/events", "/output"]) {
      const others = await api.request("GET", `/v1/tasks/${id}${path}`, { key: bob });
      const none = await api.request("GET", `/v1/tasks/task_none${path}`, { key: bob });
      expectProblem(others, 404, "not_found");
      expect(others.text).toBe(none.text);
    }
    expect((await api.request("POST", "/v1/tasks", { key: bob, body: { prompt: "x" } })).status).toBe(202);
  });
});

describe("an unknown path or method", () => {
  it("is a 404 if no route has the path", async () => {
    expectProblem(await api.request("GET", "/v1/nothing"), 404, "not_found");
    expectProblem(await api.request("GET", "/nothing"), 404, "not_found");
    expectProblem(await api.request("GET", "/docs/..%2fpackage.json"), 404, "not_found");
    expectProblem(await api.request("GET", "/v1/tasks/"), 404, "not_found");
  });

  it.each([
    ["PUT", "/v1/tasks", "POST, GET, HEAD"],
    ["PUT", "/v1/tasks/task_x", "GET, HEAD, DELETE"],
    ["POST", "/healthz", "GET, HEAD"],
  ])("is a 405 with the allowed methods for %s %s", async (method, path, allow) => {
    for (const body of [{}, undefined]) {
      const answer = await api.request(method, path, { body });
      expectProblem(answer, 405, "method_not_allowed");
      expect(answer.headers.get("allow")).toBe(allow);
    }
  });
});

describe("an internal error", () => {
  it("is a 500 without details", async () => {
    api.deps.store.getTask = async () => {
      throw new Error("the table burnt down");
    };
    const answer = await api.request("GET", "/v1/tasks/task_x");
    expectProblem(answer, 500, "internal");
    expect(answer.text).not.toContain("burnt");
  });
});

describe("without a key", () => {
  it("/healthz answers", async () => {
    const { status, json } = await api.request("GET", "/healthz", { key: "" });
    expect([status, json]).toEqual([200, { status: "ok", version: "0.1.0", stage: "test" }]);
  });

  it("/docs serves a page and all its assets", async () => {
    const page = await api.request("GET", "/docs", { key: "" });
    expect(page.type).toContain("text/html");
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self';");
    const wanted = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(wanted).toEqual(["/docs/explorer.js"]);
    for (const path of wanted) {
      const asset = await api.request("GET", path, { key: "" });
      expect(asset.status).toBe(200);
      expect(asset.text.length).toBeGreaterThan(50);
    }
  });

  it("/openapi.json has every public route with its schemas", async () => {
    const { json } = await api.request("GET", "/openapi.json", { key: "" });
    expect(json.openapi).toBe("3.1.0");
    expect(Object.keys(json.paths).sort()).toEqual([
      "/healthz",
      "/v1/audit",
      "/v1/costs",
      "/v1/flags",
      "/v1/keys",
      "/v1/keys/{id}",
      "/v1/keys/{id}/rotate",
      "/v1/me",
      "/v1/metrics",
      "/v1/pool",
      "/v1/reap",
      "/v1/sessions",
      "/v1/sessions/{key}",
      "/v1/sessions/{key}/exec",
      "/v1/sessions/{key}/extend",
      "/v1/sessions/{key}/reset",
      "/v1/snapshot",
      "/v1/tasks",
      "/v1/tasks/{id}",
      "/v1/tasks/{id}/continue",
      "/v1/tasks/{id}/events",
      "/v1/tasks/{id}/output",
      "/v1/tasks/{id}/stop",
      "/v1/users/{id}",
      "/v1/users/{id}/limits",
      "/v1/webhooks/secret",
      "/v1/webhooks/secret/rotate",
    ]);
    const body = json.components.schemas.StartRequest;
    expect(body.required).toEqual(["prompt"]);
    expect(body.additionalProperties).toBe(false);
    expect(body.properties.agent.enum).toEqual(["claude", "codex", "cursor", "shell"]);
    expect(json.components.schemas.Task.properties.status.enum).toContain("timed_out");
    expect(json.paths["/v1/tasks"].post.responses["409"].description).toContain("session_busy");
  });
});
