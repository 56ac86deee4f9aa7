import { beforeAll, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";

interface Operation {
  parameters?: { in: string }[];
  responses: Record<string, { headers?: object; content?: object }>;
  security?: object[];
  description?: string;
}

const api = createTestApi();
let operations: [method: string, path: string, operation: Operation][];
beforeAll(async () => {
  const { json } = await api.request("GET", "/openapi.json");
  operations = Object.entries(json.paths as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, operation]): [string, string, Operation] => [
        method,
        path,
        operation,
      ]),
  );
});

describe("the OpenAPI document", () => {
  it("lists every error response of each route", () => {
    expect(operations.length).toBeGreaterThan(20);
    for (const [method, path, { responses, parameters = [], security }] of operations) {
      const expected = [
        "405",
        "500",
        ...(security ? ["401"] : []),
        ...(parameters.length > 0 ? ["400"] : []),
        ...(parameters.some((parameter) => parameter.in === "path") ? ["404"] : []),
        ...(method === "post" || method === "put" ? ["400", "413", "415"] : []),
        ...(method === "delete" ? ["413"] : []),
      ];
      expect([method, path, Object.keys(responses)]).toEqual([
        method,
        path,
        expect.arrayContaining([...new Set(expected)]),
      ]);
      expect(responses["405"]?.headers).toHaveProperty("allow");
      for (const status of Object.keys(responses).filter((code) => Number(code) >= 400))
        expect(responses[status]?.content).toHaveProperty(["application/problem+json"]);
    }
  });

  it("documents numeric query parameters as integers", () => {
    const [, , list] = operations.find(([method, path]) => method === "get" && path === "/v1/tasks") ?? [];
    expect(list?.parameters).toContainEqual({
      name: "limit",
      in: "query",
      required: false,
      schema: { type: "integer", minimum: 1, maximum: 100 },
    });
  });

  it("says that a stop also kills commands run by exec", () => {
    for (const wanted of ["/v1/tasks/{id}/stop", "/v1/sessions/{key}/exec"]) {
      const [, , operation] = operations.find(([, path]) => path === wanted) ?? [];
      expect(operation?.description).toContain("stopped: true");
    }
  });
});

describe("a method that a path does not allow", () => {
  it.each([
    ["PUT", "/v1/tasks", "GET, HEAD, POST"],
    ["PATCH", "/v1/tasks/task_x", "DELETE, GET, HEAD"],
    ["GET", "/v1/tasks/task_x/stop", "POST"],
    ["DELETE", "/v1/pool", "GET, HEAD"],
    ["POST", "/healthz", "GET, HEAD"],
    ["POST", "/docs", "GET, HEAD"],
    ["DELETE", "/openapi.json", "GET, HEAD"],
  ])("is refused with the allowed ones: %s %s", async (method, path, allow) => {
    const { status, json, headers } = await api.request(method, path);
    expect([status, json.code]).toEqual([405, "method_not_allowed"]);
    expect((headers.get("allow") ?? "").split(", ").sort().join(", ")).toBe(allow);
  });
});
