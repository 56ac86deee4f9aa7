import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createTestApi, type TestApi } from "../../../test/testing/api.ts";

let api: TestApi;
let lines: string[];

beforeEach(() => {
  api = createTestApi();
  lines = [];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => lines.push(String(text)) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const idOf = async (given?: string, path = "/healthz"): Promise<string | null> => {
  const headers: Record<string, string> = given === undefined ? {} : { "x-request-id": given };
  return (await api.request("GET", path, { headers })).headers.get("x-request-id");
};

describe("x-request-id", () => {
  it("is the caller's if it is well formed", async () => {
    expect(await idOf("abc-123_DEF=")).toBe("abc-123_DEF=");
  });

  it.each(["", "two words", 'quo"te', "ä", "x".repeat(129), "semi;colon"])(
    "is generated if the caller sends %j",
    async (given) => {
      const id = await idOf(given);
      expect(id).not.toBe(given);
      expect(id).toMatch(/^[\w-]{36}$/);
    },
  );

  it("is different for each request", async () => {
    expect(await idOf()).not.toBe(await idOf());
  });

  it.each(["/v1/tasks/task_none", "/nothing/here", "/v1/runner/beat"])(
    "is on refusals too: %s",
    async (path) => {
      expect(await idOf("refused-1", path)).toBe("refused-1");
    },
  );
});

describe("a request that fails with a 5xx", () => {
  it("is logged with its request and task id, counted, and answered without details", async () => {
    const failure = Object.assign(new Error("the table is down"), { secret: "canary-in-the-error" });
    Object.assign(api.deps.store, { getTask: () => Promise.reject(failure) });
    const { status, text } = await api.request("GET", "/v1/tasks/task_1", {
      headers: { "x-request-id": "failing-1" },
    });
    expect(status).toBe(500);
    expect(text).not.toContain("table");
    expect(api.counted).toEqual(expect.arrayContaining(["http_errors", "http_requests"]));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "error",
      message: "request failed",
      requestId: "failing-1",
      taskId: "task_1",
      method: "GET",
      path: "/v1/tasks/task_1",
      status: 500,
      error: { name: "Error", message: "the table is down" },
    });
    expect(lines[0]).not.toContain("canary-in-the-error");
  });

  it("is the only kind that is logged: refusals are only counted", async () => {
    await api.request("GET", "/v1/tasks/task_none");
    expect(api.counted).toContain("http_requests");
    expect(api.counted).not.toContain("http_errors");
    expect(lines).toEqual([]);
  });
});

it("a request's line names its user and key", async () => {
  const { json } = await api.request("POST", "/v1/keys", { body: { userId: "bob" } });
  lines.length = 0;
  api.deps.store.getTask = async () => {
    throw new Error("the table is away");
  };
  await api.request("GET", "/v1/tasks/task_x", { key: json.key });
  const [line = "{}"] = lines.filter((one) => one.includes("request failed"));
  expect(JSON.parse(line)).toMatchObject({ userId: "bob", keyId: json.id, path: "/v1/tasks/task_x" });
});
