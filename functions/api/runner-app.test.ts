import { expect, it } from "vitest";
import { createTestApi } from "../../test/testing/api.ts";
import { createRunnerApp } from "./app.ts";

const api = createTestApi();
const app = createRunnerApp(api.deps);
const get = (path: string) =>
  app.request(`http://edge${path}`, { headers: { authorization: "Bearer admin-key-for-tests-only" } });

it.each([
  "/v1/tasks",
  "/v1/runner/../tasks",
  "/v1/runner/%2e%2e/tasks",
  "/v1/runner/..%2ftasks",
  "/v1/runner/..\\tasks",
  "//v1/runner/../tasks",
  "/healthz",
  "/openapi.json",
])("the runners' api does not serve %s", async (path) => {
  expect([401, 404]).toContain((await get(path)).status);
});

it("serves a runner with its token", async () => {
  const { json } = await api.request("POST", "/v1/tasks", { body: { prompt: "x" } });
  const claims = { taskId: json.id, turn: 1, expiresAt: api.deps.clock.now() + 1000 };
  const response = await app.request("http://edge/v1/runner/beat", {
    method: "POST",
    headers: {
      authorization: `Bearer ${api.deps.sealer.issueToken(claims)}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ activity: "none" }),
  });
  expect([response.status, await response.json()]).toEqual([200, { action: "wait" }]);
});
