import { describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver } from "../../../test/testing/driver.ts";
import { parseConfig } from "../config.ts";
import { decideTurnHold, untilMidnightMs } from "./decide.ts";

const contenders = 50;
const use = (env: Record<string, string> = {}) =>
  createDriver(
    createTestApi(parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "test", ...env })),
  );

async function asBob(env: Record<string, string> = {}) {
  const driver = use(env);
  const { api } = driver;
  const key = await api.keyFor("bob");
  return {
    ...driver,
    key,
    start: async (over: object = {}) =>
      await api.request("POST", "/v1/tasks", { key, body: { prompt: "true", ...over } }),
    limit: async (body: object) => await api.request("PUT", "/v1/users/bob/limits", { body }),
    /** Ends a task that no worker has taken. */
    stop: async (id: string) => {
      expect((await api.request("POST", `/v1/tasks/${id}/stop`, { key })).json.status).toBe("stopped");
    },
  };
}

const isOk = ({ status }: { status: number }) => status === 202;

describe("a user's limits", () => {
  it("are the operator's defaults until an admin sets others, and users see them", async () => {
    const { api, key, limit } = await asBob({ USER_MAX_STREAMS: "7", USER_MAX_COST_USD: "2.5" });
    const get = async () => (await api.request("GET", "/v1/users/bob/limits")).json;
    expect(await get()).toMatchObject({ maxStreams: 7, maxCostUsd: 2.5, maxConcurrentTasks: 200 });
    expect((await limit({ maxStreams: 1, maxCostUsd: null })).json).toMatchObject({
      maxStreams: 1,
      maxCostUsd: null,
    });
    expect((await limit({ maxQueuedTasks: 3 })).json).toMatchObject({ maxStreams: 1, maxQueuedTasks: 3 });
    expect((await api.request("GET", "/v1/me", { key })).json.limits).toMatchObject({
      maxStreams: 1,
      maxCostUsd: null,
    });
    expect((await limit({ maxStreams: "default" })).json).toMatchObject({ maxStreams: 7, maxQueuedTasks: 3 });
    expect((await api.request("GET", "/v1/users/eve/limits")).json).toMatchObject({ maxStreams: 7 });
  });

  it.each([
    { maxStreams: -1 },
    { maxStreams: 501 },
    { maxDurationMs: 1 },
    { speed: 1 },
    { maxCostUsd: "free" },
  ])("cannot be set to %j", async (body) => {
    expect(await (await asBob()).limit(body)).toMatchObject({
      status: 400,
      json: { code: "invalid_request" },
    });
  });

  it("are ceilings: a longer duration or a larger budget is refused and names the ceiling", async () => {
    const { start, limit } = await asBob();
    await limit({ maxDurationMs: 60_000, maxInactivityMs: 10_000, maxCostUsd: 1 });
    for (const [name, value, ceiling] of [
      ["maxDurationMs", 60_001, 60_000],
      ["inactivityMs", 10_001, 10_000],
      ["maxCostUsd", 1.01, 1],
    ] as const) {
      const { status, json } = await start({ limits: { [name]: value } });
      expect([status, json.code]).toEqual([400, "invalid_request"]);
      expect(json.issues).toEqual([
        { path: `limits.${name}`, message: expect.stringContaining(String(ceiling)) },
      ]);
    }
    const { json } = await start();
    expect(json.limits).toEqual({ maxDurationMs: 60_000, inactivityMs: 10_000, maxCostUsd: 1 });
  });

  it("hold for the next turn as well", async () => {
    const { start, limit, stop, post, key } = await asBob();
    const { json } = await start();
    await stop(json.id);
    await limit({ maxDurationMs: 5_000 });
    const again = await post(
      `/v1/tasks/${json.id}/continue`,
      { prompt: "x", limits: { maxDurationMs: 6_000 } },
      key,
    );
    expect(again.status).toBe(400);
    expect(
      (await post(`/v1/tasks/${json.id}/continue`, { prompt: "x" }, key)).json.limits.maxDurationMs,
    ).toBe(5_000);
  });

  it("is a quarter of the pool for sandboxes, and at least one", () => {
    expect(parseConfig({}).poolMaxPerUser).toBe(25);
    expect(parseConfig({ POOL_MAX_SANDBOXES: "2" }).poolMaxPerUser).toBe(1);
    expect(parseConfig({ POOL_MAX_PER_USER: "70" }).poolMaxPerUser).toBe(70);
  });
});

describe("concurrent tasks", () => {
  it.each([
    ["maxConcurrentTasks", "task_limit"],
    ["maxQueuedTasks", "queue_limit"],
  ])("never exceed %s, however many are started at once", async (name, code) => {
    const { start, limit, api, key } = await asBob();
    await limit({ [name]: 7 });
    const answers = await Promise.all(
      Array.from({ length: contenders }, (_, i) => start({ sessionKey: `s${i}` })),
    );
    expect(answers.filter(isOk)).toHaveLength(7);
    const [refused] = answers.filter((answer) => !isOk(answer));
    expect(refused).toMatchObject({ status: 429, json: { code } });
    expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await api.request("GET", "/v1/tasks?limit=100", { key })).json.items).toHaveLength(7);
    expect((await api.request("POST", "/v1/tasks", { body: { prompt: "the admin's" } })).status).toBe(202);
  });

  it("count again from the end of a turn, at once and in any number", async () => {
    const { start, limit, stop } = await asBob();
    await limit({ maxConcurrentTasks: 2 });
    for (let round = 0; round < 5; round++) {
      const ids = [];
      for (const sessionKey of ["a", "b"]) ids.push((await start({ sessionKey })).json.id);
      expect((await start({ sessionKey: "c" })).json.code).toBe("task_limit");
      for (const id of ids) await stop(id);
    }
  });

  it("are no longer queued once a worker has them", async () => {
    const { start, limit, api } = await asBob();
    await limit({ maxQueuedTasks: 1 });
    expect((await start({ sessionKey: "a" })).status).toBe(202);
    expect((await start({ sessionKey: "b" })).json.code).toBe("queue_limit");
    await api.work();
    expect((await start({ sessionKey: "b" })).status).toBe(202);
  });

  it("count a continued task once, and refuse it at the limit", async () => {
    const { start, limit, stop, post, key } = await asBob();
    await limit({ maxConcurrentTasks: 2 });
    const { id } = (await start({ sessionKey: "a" })).json;
    await stop(id);
    for (let turn = 2; turn < 6; turn++) {
      expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" }, key)).json.turn).toBe(turn);
      await stop(id);
    }
    for (const sessionKey of ["b", "c"]) expect((await start({ sessionKey })).status).toBe(202);
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" }, key)).json.code).toBe("task_limit");
  });

  it("do not count a start that was refused for another reason", async () => {
    const { start, limit } = await asBob();
    await limit({ maxConcurrentTasks: 2 });
    expect((await start({ sessionKey: "a" })).status).toBe(202);
    for (let i = 0; i < 5; i++) expect((await start({ sessionKey: "a" })).json.code).toBe("session_busy");
    expect((await start({ sessionKey: "b" })).status).toBe(202);
  });

  it("stop counting a start that crashed, after the grace period", async () => {
    const { start, limit, api } = await asBob();
    await limit({ maxConcurrentTasks: 1 });
    const { createTask } = api.deps.store;
    api.deps.store.createTask = async () => {
      throw new Error("the process died");
    };
    expect((await start({ sessionKey: "a" })).status).toBe(500);
    api.deps.store.createTask = createTask;
    expect((await start({ sessionKey: "b" })).json.code).toBe("task_limit");
    api.advance(30_000);
    expect((await start({ sessionKey: "b" })).status).toBe(202);
  });

  it("are admitted once per idempotency key", async () => {
    const { api, limit, key } = await asBob();
    await limit({ maxConcurrentTasks: 1 });
    const start = () =>
      api.request("POST", "/v1/tasks", { key, body: { prompt: "x" }, headers: { "idempotency-key": "k" } });
    const answers = await Promise.all(Array.from({ length: 10 }, start));
    expect(new Set(answers.filter(isOk).map(({ json }) => json.id)).size).toBe(1);
    expect((await start()).status).toBe(202);
  });
});

describe("the verdict on a hold", () => {
  const task = (turn: number, status: string) => ({ turn, state: { status } }) as never;
  it.each([
    ["a turn that is queued", "2.0", task(2, "queued"), 0, "queued"],
    ["a turn that runs", "2.0", task(2, "running"), 0, "active"],
    ["a turn that has ended", "2.0", task(2, "stopped"), 0, "ended"],
    ["an earlier turn", "1.0", task(2, "running"), 0, "ended"],
    ["a turn that is about to be written", "2.0", task(1, "stopped"), 29_999, "queued"],
    ["a turn that was never written", "2.0", task(1, "stopped"), 30_000, "ended"],
    ["a start that died", "1.5", undefined, 30_005, "ended"],
  ])("is right for %s", (_what, value, found, now, verdict) => {
    expect(decideTurnHold(value, found, now)).toBe(verdict);
  });
});

describe("the rate of requests", () => {
  const get = (driver: Awaited<ReturnType<typeof asBob>>, key = driver.key) =>
    driver.api.request("GET", "/v1/me", { key });

  it("is limited per key and per user, with Retry-After until the next minute", async () => {
    const driver = await asBob({ USER_REQUESTS_PER_MINUTE_PER_KEY: "80", USER_REQUESTS_PER_MINUTE: "120" });
    const other = await driver.api.keyFor("bob");
    for (let i = 0; i < 80; i++) expect((await get(driver)).status).toBe(200);
    const refused = await get(driver);
    expect(refused).toMatchObject({ status: 429, json: { code: "rate_limited" } });
    const after = Number(refused.headers.get("retry-after"));
    expect(after).toBeGreaterThan(0);
    expect(after).toBeLessThanOrEqual(60);
    for (let i = 0; i < 40; i++) expect((await get(driver, other)).status).toBe(200);
    expect((await get(driver, other)).status).toBe(429);
    driver.api.advance(after * 1000);
    expect((await get(driver)).status).toBe(200);
  });

  it("is shared by processes through the table, with one write per many requests", async () => {
    const { api } = use({ USER_REQUESTS_PER_MINUTE_PER_KEY: "400" });
    const { createRateLimiter } = await import("./rate.ts");
    let writes = 0;
    const store = {
      ...api.deps.store,
      countRequests: async (...args: Parameters<typeof api.deps.store.countRequests>) => {
        writes += 1;
        return await api.deps.store.countRequests(...args);
      },
    };
    const processes = Array.from({ length: 4 }, () => createRateLimiter({ ...api.deps, store }));
    let allowed = 0;
    for (let i = 0; i < 1000; i++)
      await processes[i % 4]?.("bob", "key_1").then(
        () => (allowed += 1),
        () => {},
      );
    // Three other processes have not written nine requests each at most, and have not read since their last write.
    expect(allowed).toBeGreaterThanOrEqual(400);
    expect(allowed).toBeLessThanOrEqual(400 + 3 * 2 * 10);
    expect(writes).toBeLessThanOrEqual(allowed / 10);
  });

  it("is not counted in the table for a slow caller", async () => {
    const driver = await asBob();
    driver.api.deps.store.countRequests = async () => {
      throw new Error("nobody should write");
    };
    for (let i = 0; i < 20; i++) expect((await get(driver)).status).toBe(200);
  });
});

describe("what a user's tasks cost in a day", () => {
  const spend = async (
    driver: Awaited<ReturnType<typeof asBob>>,
    token: string,
    costUsd: number,
    seq: number,
  ) =>
    (
      await driver.say(token, "output", {
        seq,
        chunks: [{ stream: "stdout", at: "2026-11-01T12:00:00Z", data: "aGk=" }],
        usage: { inputTokens: 1, outputTokens: seq, costUsd },
      })
    ).json;
  const running = async (driver: Awaited<ReturnType<typeof asBob>>, sessionKey: string) => {
    const { json } = await driver.start({ sessionKey });
    await driver.api.work();
    const turn = JSON.parse(driver.api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}") as {
      token: string;
    };
    return { id: json.id as string, token: turn.token };
  };

  it("ends the turn that crosses the limit, and refuses the next start until midnight UTC", async () => {
    const driver = await asBob();
    await driver.limit({ maxCostUsdPerDay: 1 });
    const first = await running(driver, "a");
    const second = await running(driver, "b");
    expect(await spend(driver, first.token, 0.6, 1)).toEqual({ action: "continue" });
    expect(await spend(driver, second.token, 0.3, 1)).toEqual({ action: "continue" });
    expect(await spend(driver, second.token, 0.45, 2)).toEqual({ action: "stop" });
    await driver.api.fire("terminate");
    const ended = (await driver.api.request("GET", `/v1/tasks/${second.id}`, { key: driver.key })).json;
    expect(ended).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
    const refused = await driver.start({ sessionKey: "c" });
    expect(refused).toMatchObject({ status: 429, json: { code: "spend_limit" } });
    const left = Math.ceil(untilMidnightMs(driver.api.deps.clock.now()) / 1000);
    expect(Math.abs(Number(refused.headers.get("retry-after")) - left)).toBeLessThanOrEqual(1);
    expect(
      (await driver.post(`/v1/tasks/${second.id}/continue`, { prompt: "x" }, driver.key)).json.code,
    ).toBe("spend_limit");
    driver.api.advance((left + 1) * 1000);
    expect((await driver.start({ sessionKey: "c" })).status).toBe(202);
  });

  it("counts the report that comes with the end", async () => {
    const driver = await asBob();
    await driver.limit({ maxCostUsdPerDay: 1 });
    const { token } = await running(driver, "a");
    await driver.end(token, { usage: { inputTokens: 1, outputTokens: 1, costUsd: 1.5 } });
    expect((await driver.start({ sessionKey: "b" })).json.code).toBe("spend_limit");
  });
});
