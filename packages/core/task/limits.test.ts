import { limits, ProviderError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../../../test/testing/api.ts";
import { createDriver } from "../../../test/testing/driver.ts";

let api: TestApi;
beforeEach(() => {
  api = createTestApi();
});

const start = (body: unknown) => api.request("POST", "/v1/tasks", { body });

describe("a number that the table cannot store", () => {
  it.each([5e-324, 1e-131, 9e-7, 0, -1, 1e126, 1.7e308])("is refused as a budget: %d", async (maxCostUsd) => {
    const { status, json } = await start({ prompt: "x", limits: { maxCostUsd } });
    expect([status, json.code]).toEqual([400, "invalid_request"]);
    expect(json.issues[0].path).toBe("limits.maxCostUsd");
  });

  it.each([0.000001, 0.1 + 0.2, 10_000])("accepts a budget like %d", async (maxCostUsd) => {
    const { status, json } = await start({ prompt: "x", limits: { maxCostUsd } });
    expect([status, json.limits?.maxCostUsd]).toEqual([202, maxCostUsd]);
  });

  it("is rounded in a usage report", async () => {
    const driver = createDriver(api);
    const { id, token } = await driver.running();
    const usage = { inputTokens: 1, outputTokens: 1, costUsd: 5e-324 };
    expect((await driver.say(token, "beat", { activity: "model", usage })).json).toEqual({
      action: "continue",
    });
    expect((await driver.get(id)).usage.costUsd).toBe(0);
  });
});

describe("the response to a request with many faults", () => {
  it("lists the first twenty and counts the rest", async () => {
    const metadata = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`key ${n}`, n]));
    const { status, json, text } = await start({ prompt: "x", metadata });
    expect(status).toBe(400);
    expect(json.issues).toHaveLength(20);
    expect(json.moreIssues).toBeGreaterThan(49_000);
    expect(json.detail).toMatch(/; and \d+ more$/);
    expect(text.length).toBeLessThan(16 * 1024);
  });

  it("cuts long values that it repeats", async () => {
    const name = "x".repeat(500_000);
    const { status, json, text } = await start({ prompt: "x", metadata: { [name]: 1 }, [name]: 1 });
    expect(status).toBe(400);
    for (const { path, message } of json.issues) {
      expect(path.length).toBeLessThanOrEqual(200);
      expect(message.length).toBeLessThanOrEqual(200);
    }
    expect(text.length).toBeLessThan(16 * 1024);
  });
});

describe("GET /v1/costs", () => {
  const costs = (from: string, to: string) => api.request("GET", `/v1/costs?from=${from}&to=${to}`);

  it.each([
    ["0001-01-01", "9999-12-31"],
    ["2026-01-01", "2026-02-01"],
    ["2026-01-02", "2026-01-01"],
    ["9999-12-31", "0001-01-01"],
  ])("refuses %s to %s before it reads anything", async (from, to) => {
    let reads = 0;
    api.deps.store.listUsage = async () => {
      reads += 1;
      return [];
    };
    const { status, json } = await costs(from, to);
    expect([status, json.code, reads]).toEqual([400, "invalid_request", 0]);
  });

  it("spends no time on rejected days", async () => {
    const before = process.cpuUsage();
    for (let n = 0; n < 20; n++) await costs("0001-01-01", "9999-12-31");
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2_000);
  });

  it("accepts 31 days, and one", async () => {
    expect((await costs("2026-01-01", "2026-01-31")).status).toBe(200);
    expect((await costs("2026-01-01", "2026-01-01")).status).toBe(200);
    expect((await api.request("GET", "/v1/costs?to=0000-01-01")).status).toBeLessThan(500);
  });
});

describe("a query", () => {
  it.each([
    "/v1/tasks?limit=1&limit=2",
    "/v1/tasks?limit=0x10",
    "/v1/tasks?limit=1e1",
    "/v1/tasks?limit=+5",
    "/v1/tasks?limit=%205",
    "/v1/tasks?limit=",
    "/v1/tasks?cursor=%ff%fe",
    "/v1/tasks?%00=%00",
    "/v1/tasks?sessionKey=a&sessionKey=b",
    "/v1/tasks?__proto__=1",
    "/v1/tasks?constructor=1",
    "/v1/tasks/task_x?waitMs=%20",
    "/v1/costs?from=2026-13-01",
    "/v1/costs?userId=a&userId=b",
    "/v1/sessions?probe=yes",
  ])("is rejected if it is malformed: %s", async (path) => {
    const { status, json } = await api.request("GET", path);
    expect([status, json.status]).toEqual([400, 400]);
  });

  it.each(["/v1/tasks?%zz", "/v1/tasks?limit=%", "/v1/pool?%E0%A4%A", "/v1/tasks/%E0%A4%A", "/v1/tasks/%00"])(
    "is not a server error if it cannot be decoded: %s",
    async (path) => {
      expect((await api.request("GET", path)).status).toBeLessThan(500);
    },
  );
});

describe("a body", () => {
  it.each(["application/json;", "application/json; x", "application/json; charset=utf-8"])(
    "is parsed with any parameter after its type: %s",
    async (type) => {
      const send = (path: string, body: string) =>
        api.request("POST", path, { body, headers: { "content-type": type } });
      expect((await send("/v1/tasks", '{"prompt":"x"}')).status).toBe(202);
      expect((await send("/v1/reap", '{"unknown":1}')).status).toBe(400);
    },
  );
});

describe("text from outside in a task", () => {
  const long = "é".repeat(4000);

  it.each([
    ["a runner's", { reason: "clone_failed", detail: long }],
    ["an agent's", { reason: "runner_error", detail: long }],
  ])("is cut: %s", async (_whose, said) => {
    const driver = createDriver(api);
    const { id, token } = await driver.running();
    expect((await driver.end(token, { exitCode: null, ...said })).status).toBe(200);
    const { detail } = (await driver.get(id)).error;
    expect(Buffer.byteLength(detail)).toBeLessThanOrEqual(limits.errorDetailMaxBytes);
    expect(detail).toMatch(/é…$/);
  });

  it("is cut: the provider's refusal", async () => {
    const driver = createDriver(api);
    api.deps.provider.create = async () => {
      throw new ProviderError("refused", long);
    };
    const id = await driver.start();
    await api.work();
    const { error } = await driver.get(id);
    expect(error.code).toBe("provision_failed");
    expect(Buffer.byteLength(error.detail)).toBeLessThanOrEqual(limits.errorDetailMaxBytes);
  });

  it("is cut before the end is proven", async () => {
    const driver = createDriver(api);
    api.deps.provider.launch = async () => {
      throw new ProviderError("refused", long);
    };
    api.deps.provider.sweep = async () => {
      throw new ProviderError("transient", "away");
    };
    const id = await driver.start();
    await api.work();
    const state = (await api.deps.store.getTask(id))?.state;
    expect(state?.status).toBe("stopping");
    const { detail } = (state && "error" in state && state.error) || { detail: long };
    expect(Buffer.byteLength(detail)).toBeLessThanOrEqual(limits.errorDetailMaxBytes);
  });

  it("is limited to a number of webhook notices of limited size", async () => {
    const driver = createDriver(api);
    const { id, token } = await driver.running({ webhook: { url: "http://hook.test/" } });
    await driver.end(token);
    api.webhooks.send = async () => ({ kind: "refused", detail: long });
    const [message] = api.sent.filter(({ kind }) => kind === "ended");
    expect(message).toBeDefined();
    await api.work();
    const [told] = (await driver.get(id)).notices;
    expect(told.code).toBe("webhook_failed");
    expect(Buffer.byteLength(told.detail)).toBeLessThanOrEqual(limits.noticeDetailMaxBytes);

    const full = Array.from({ length: limits.noticesMax }, () => ({ code: "x", detail: "", turn: 1, at: 1 }));
    const { store } = api.deps;
    await store.changeTask(
      id,
      { turn: 1, status: ["succeeded"] },
      { set: { notices: full, countedTurn: 0, dueAt: 0 } },
    );
    await api.request("POST", "/v1/reap");
    await api.work();
    expect((await driver.get(id)).notices).toHaveLength(limits.noticesMax);
  });
});
