import { parseConfig } from "@concierge/core";
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { createTestApi, type TestApi } from "../testing/api.ts";
import { createDriver } from "../testing/driver.ts";
import { type FuzzedRequest, operationsOf, requestsOf } from "./fuzz.ts";

const config = parseConfig({
  CONCIERGE_DEFAULT_AGENT: "shell",
  CONCIERGE_STAGE: "test",
  USER_REQUESTS_PER_MINUTE: "1000000",
  USER_REQUESTS_PER_MINUTE_PER_KEY: "1000000",
  USER_MAX_CONCURRENT_TASKS: "500",
});

/** An api with a task of each kind, a session and a key. */
async function createWorld() {
  const driver = createDriver(createTestApi(config));
  const { api } = driver;
  const running = await driver.running({ sessionKey: "busy" });
  const ended = await driver.running({ sessionKey: "idle" });
  await driver.end(ended.token);
  await api.work();
  const { json: key } = await api.request("POST", "/v1/keys", { body: { userId: "bob" } });
  return { api, ids: [running.id, ended.id, "busy", "idle", "new", key.id, "bob", "task_none"] };
}

async function send({ app }: TestApi, { method, path, headers, body }: FuzzedRequest): Promise<number> {
  const response = await app.request(path, {
    method,
    headers: { authorization: "Bearer admin-key-for-tests-only", ...headers },
    ...(body !== undefined && { body }),
  });
  if (!response.headers.get("content-type")?.includes("event-stream")) await response.text();
  else await response.body?.cancel();
  return response.status;
}

/** Declares the test with this many requests, spread over all routes. */
export function fuzzRoutes(total: number): void {
  it(`no request that follows the schemas, more or less, is answered with 5xx (${total} requests)`, async () => {
    const errors: string[] = [];
    vi.spyOn(process.stdout, "write").mockImplementation((line) => {
      if (String(line).includes('"level":"error"')) errors.push(String(line));
      return true;
    });
    let { api, ids } = await createWorld();
    const { json: document } = await api.request("GET", "/openapi.json", { key: "" });
    const operations = operationsOf(document);
    expect(operations.length).toBeGreaterThan(28);
    const statuses = new Map<number, number>();
    const numRuns = Math.ceil(total / operations.length);
    for (const operation of operations) {
      await fc.assert(
        fc.asyncProperty(requestsOf(operation, document.components.schemas, ids), async (request) => {
          const status = await send(api, request);
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status >= 500) throw new Error(`${status}: ${JSON.stringify(request)}\n${errors.at(-1)}`);
        }),
        { numRuns },
      );
      // Requests pile up tasks and delete things: the next operation gets a new world.
      ({ api, ids } = await createWorld());
    }
    vi.restoreAllMocks();
    const sent = [...statuses.values()].reduce((sum, count) => sum + count, 0);
    expect(sent).toBeGreaterThanOrEqual(total);
    const successes = [...statuses]
      .filter(([status]) => status < 300)
      .reduce((sum, [, count]) => sum + count, 0);
    // A fuzzer whose requests are all refused at the door finds nothing behind it.
    expect(successes / sent).toBeGreaterThan(0.1);
  }, 600_000);
}
