import { parseConfig, SetupError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver, type Driver, failing } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { start, get, post, running, end } = createDriver();
function use(variables: Record<string, string> = {}): void {
  const config = parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "test", ...variables });
  ({ api, start, get, post, running, end } = createDriver(createTestApi(config)));
}
beforeEach(() => use());

const pool = async () => (await api.request("GET", "/v1/pool")).json;
const costs = async (query = "", key?: string) =>
  await api.request("GET", `/v1/costs${query}`, key === undefined ? {} : { key });
const reap = () => post("/v1/reap", {});

describe("the pool", () => {
  it("reports its figures at every stage", async () => {
    expect(await pool()).toEqual({
      total: 0,
      ready: 0,
      leased: 0,
      idle: 0,
      warm: 0,
      creating: 0,
      max: 100,
      oldestIdleMs: null,
      reuseRate: null,
    });
    const first = await running({ sessionKey: "a" });
    await running({ sessionKey: "b" });
    expect(await pool()).toMatchObject({ total: 2, ready: 2, leased: 2, idle: 0 });
    await end(first.token);
    api.advance(5000);
    expect(await pool()).toMatchObject({ leased: 1, idle: 1, oldestIdleMs: expect.any(Number) });
    await post(`/v1/tasks/${first.id}/continue`, { prompt: "more" });
    await api.work();
    await post(`/v1/tasks/${first.id}/stop`);
    await api.work();
    expect((await pool()).reuseRate).toBe(0.5);
  });

  it("at its cap releases the least recently used idle session", async () => {
    use({ POOL_MAX_SANDBOXES: "2", POOL_MAX_PER_USER: "2" });
    const old = await running({ sessionKey: "old" });
    await end(old.token);
    api.advance(1000);
    const recent = await running({ sessionKey: "recent" });
    await end(recent.token);
    await running({ sessionKey: "new" });
    const names = api.world.sandboxes().map(({ name }) => name);
    expect(names).toEqual([api.world.created[1], api.world.created[2]]);
    expect(await pool()).toMatchObject({ total: 2, max: 2 });
  });

  it("answers 429 with Retry-After when all sandboxes are in use, and creates nothing", async () => {
    use({ POOL_MAX_SANDBOXES: "2", POOL_MAX_PER_USER: "2" });
    const first = await running({ sessionKey: "a" });
    await running({ sessionKey: "b" });
    const refused = await post("/v1/tasks", { prompt: "x", sessionKey: "c" });
    expect(refused).toMatchObject({ status: 429, json: { code: "no_room" } });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await api.request("GET", "/v1/sessions/c")).status).toBe(404);
    expect((await api.request("GET", "/v1/tasks")).json.items).toHaveLength(2);
    expect((await api.request("PUT", "/v1/sessions/c")).status).toBe(429);
    expect(api.sent.filter(({ kind }) => kind !== "environment")).toEqual([]);

    await end(first.token);
    expect((await post("/v1/tasks", { prompt: "x", sessionKey: "c" })).status).toBe(202);
  });

  it("lets an accepted turn wait, and gives it the first free sandbox", async () => {
    use({ POOL_MAX_SANDBOXES: "1" });
    const late = await start({ sessionKey: "late" });
    const message = api.sent.splice(0);
    const first = await running({ sessionKey: "a" });
    api.sent.push(...message);
    await api.work();
    expect((await get(late)).status).toBe("provisioning");
    const { items } = (await api.request("GET", `/v1/tasks/${late}/events`)).json;
    expect(items.at(-1)).toMatchObject({ step: "retrying", detail: expect.stringContaining("in use") });
    await end(first.token);
    api.advance(5000);
    await api.work();
    expect((await get(late)).status).toBe("running");
    expect(api.world.sandboxes()).toHaveLength(1);
  });

  it("does not release a sandbox in which a command runs", async () => {
    use({ POOL_MAX_SANDBOXES: "1", SESSION_IDLE_TIMEOUT_MS: "4000" });
    const { token } = await running({ sessionKey: "a" });
    await end(token);
    const usedUntil = api.deps.clock.now() + 15_000;
    await api.deps.store.changeSession("admin", "a", { isOpen: true }, { set: { usedUntil } });
    expect((await post("/v1/tasks", { prompt: "x", sessionKey: "b" })).status).toBe(429);
    api.advance(10_000);
    await reap();
    expect(api.world.sandboxes()).toHaveLength(1);
    api.advance(5000);
    expect((await post("/v1/tasks", { prompt: "x", sessionKey: "b" })).status).toBe(202);
  });

  it("releases an idle sandbox soon, however its turn ended", async () => {
    use({ SESSION_IDLE_TIMEOUT_MS: "4000" });
    const { id } = await running();
    for (let seconds = 0; seconds < 30; seconds++) {
      api.advance(1000);
      await reap();
    }
    expect((await post(`/v1/tasks/${id}/stop`)).json.status).toBe("stopped");
    let seconds = 0;
    for (; api.world.sandboxes().length > 0 && seconds < 60; seconds++) {
      api.advance(1000);
      await reap();
    }
    expect(seconds).toBeGreaterThanOrEqual(4);
    expect(seconds).toBeLessThanOrEqual(8);
  });

  it("holds users to their own cap, even if the pool has capacity", async () => {
    use({ POOL_MAX_PER_USER: "1" });
    const mine = await running({ sessionKey: "a" });
    expect((await post("/v1/tasks", { prompt: "x", sessionKey: "b" })).json.code).toBe("no_room");
    const key = await api.keyFor("bob");
    expect((await post("/v1/tasks", { prompt: "x", sessionKey: "b" }, key)).status).toBe(202);
    await api.work();
    await end(mine.token);
    await running({ sessionKey: "b" });
    expect(await pool()).toMatchObject({ total: 2 });
  });

  it("frees a slot whose taker died before a record named its sandbox", async () => {
    use({ POOL_MAX_SANDBOXES: "1" });
    await api.deps.store.putSlot({
      name: "never-made",
      at: api.deps.clock.now(),
      userId: "x",
      sessionKey: "y",
    });
    expect((await post("/v1/tasks", { prompt: "x" })).status).toBe(429);
    api.advance(120_000);
    await reap();
    expect((await post("/v1/tasks", { prompt: "x" })).status).toBe(202);
  });
});

describe("the base snapshot", () => {
  const setup = { SANDBOX_SETUP: "npm install the-agent" };
  const base = async () => (await api.request("GET", "/v1/snapshot")).json;

  it("is built once, and new sandboxes are created from it without installing again", async () => {
    use(setup);
    const ran: string[] = [];
    const { exec } = api.deps.provider;
    api.deps.provider.exec = async (sandbox, execution) => {
      ran.push(String(execution.args[1]));
      return await exec(sandbox, execution);
    };
    const cold = await running({ sessionKey: "before" });
    expect((await get(cold.id)).sandbox.origin).toBe("cold");
    expect(ran.filter((script) => script === setup.SANDBOX_SETUP)).toHaveLength(1);

    await reap();
    await api.work();
    expect(await base()).toMatchObject({ state: "ready", runtime: "node24", snapshotId: expect.any(String) });
    await reap();
    await api.work();
    const { id } = await running({ sessionKey: "after" });
    expect((await get(id)).sandbox.origin).toBe("snapshot");
    expect(ran.filter((script) => script === setup.SANDBOX_SETUP)).toHaveLength(2);
    expect(api.world.snapshots.size).toBe(1);
    expect(api.world.sandboxes()).toHaveLength(2);
  });

  it("is rebuilt when it is gone, and a cold install replaces it meanwhile", async () => {
    use(setup);
    await post("/v1/snapshot");
    await api.work();
    api.world.loseSnapshot((await base()).snapshotId);
    const { id } = await running();
    expect((await get(id)).sandbox.origin).toBe("cold");
    expect((await base()).state).toBe("failed");
    await reap();
    await api.work();
    expect((await base()).state).toBe("ready");
  });

  it("is stale when the setup changes, and the old one is deleted once there is a new one", async () => {
    use(setup);
    await post("/v1/snapshot");
    await api.work();
    const [old] = [...api.world.snapshots.keys()];
    Object.assign(api.deps.config, { setup: "npm install another" });
    expect((await base()).state).toBe("stale");
    await reap();
    await api.work();
    expect((await base()).state).toBe("ready");
    expect([...api.world.snapshots.keys()]).not.toContain(old);
    expect(api.world.snapshots.size).toBe(1);
  });

  it("reports why its setup failed, is not retried in a loop, and leaves nothing behind", async () => {
    use(setup);
    api.deps.provider.exec = async () => ({
      exitCode: 7,
      stdout: "",
      stderr: "no such package",
      truncated: false,
    });
    await reap();
    await api.work();
    expect(await base()).toMatchObject({
      state: "failed",
      detail: expect.stringContaining("no such package"),
    });
    await reap();
    expect(api.sent).toEqual([]);

    const id = await start();
    await api.work();
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "provision_failed", detail: expect.stringContaining("no such package") },
    });
    expect(api.sent).toEqual([{ kind: "ended", taskId: id, turn: 1 }]);
    expect(api.world.sandboxes()).toEqual([]);
    expect(await pool()).toMatchObject({ total: 0 });
  });

  it("is retried when the provider failed", async () => {
    use(setup);
    const { create } = api.deps.provider;
    api.deps.provider.create = failing("transient");
    await reap();
    await expect(api.work()).rejects.not.toBeInstanceOf(SetupError);
    api.deps.provider.create = create;
    await reap();
    await api.work();
    expect((await base()).state).toBe("ready");
  });

  it("is visible to admins only, and built by them only", async () => {
    const key = await api.keyFor("bob");
    expect((await api.request("GET", "/v1/snapshot", { key })).status).toBe(403);
    expect((await api.request("POST", "/v1/snapshot", { key })).status).toBe(403);
    expect((await post("/v1/snapshot")).status).toBe(202);
  });
});

describe("costs", () => {
  /** Thirty messages of ten seconds each; a new sandbox takes two to create and five to install into. */
  async function thirtyMessages(over: Record<string, unknown>): Promise<void> {
    use({ SANDBOX_SETUP: "install", AGENT_MAX_WAIT_TIME_MS: "60000" });
    const { provider } = api.deps;
    const { create, exec } = provider;
    provider.create = async (options) => {
      api.advance(2000);
      return await create(options);
    };
    provider.exec = async (sandbox, execution) => {
      if (execution.args[1] === "install") api.advance(5000);
      return await exec(sandbox, execution);
    };
    let id = "";
    for (let message = 0; message < 30; message++) {
      if (id === "") id = await start(over);
      else await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
      await api.work();
      const { token } = JSON.parse(api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}");
      api.advance(10_000);
      await end(token, { agentMs: 10_000 });
      await api.work();
    }
  }

  it("of a 30-message session are 614 vCPU-seconds, where a sandbox per message takes 1,020", async () => {
    await thirtyMessages({});
    const { total, items } = (await costs()).json;
    expect(items[0].origins).toEqual({ cold: 1, reused: 29 });
    expect(total.turns).toBe(30);
    expect(total.used.vcpuSeconds).toBeCloseTo(614, 0);
    expect(total.perMessage.vcpuSeconds).toBeCloseTo(1020, 0);
    expect(total.savedRatio).toBeCloseTo(0.4, 2);
    expect(total.used).toMatchObject({ creations: 1 });
    expect((await pool()).reuseRate).toBeCloseTo(29 / 30, 5);
  });

  it("of the same messages with a sandbox each match the estimate", async () => {
    await thirtyMessages({ keepAlive: false });
    const { total, items } = (await costs()).json;
    expect(items[0].origins).toEqual({ cold: 30 });
    expect(total.used.vcpuSeconds).toBeCloseTo(1020, 0);
    expect(total.perMessage.vcpuSeconds).toBeCloseTo(1020, 0);
    expect(total.used.creations).toBe(30);
  });

  it("include the memory of idle sandboxes", async () => {
    const { token } = await running();
    await end(token);
    await api.work();
    const before = (await costs()).json.total.used;
    api.advance(600_000);
    expect((await api.request("DELETE", "/v1/sessions/default")).status).toBe(204);
    const after = (await costs()).json.total.used;
    expect(after.vcpuSeconds).toBe(before.vcpuSeconds);
    expect(after.gbHours - before.gbHours).toBeCloseTo((600 / 3600) * 4, 1);
  });

  it("count a turn once, however often its end is reported", async () => {
    const { id, token } = await running();
    api.advance(1000);
    await end(token, { agentMs: 1000 });
    api.sent.push(...api.sent, ...api.sent);
    await api.work();
    await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
    await api.work();
    expect((await costs()).json.total).toMatchObject({ turns: 1, used: { vcpuSeconds: 2 } });
  });

  it("show users their own; admins see everyone's, or one user's", async () => {
    const key = await api.keyFor("bob");
    await post("/v1/tasks", { prompt: "x" }, key);
    await api.work();
    const { token } = JSON.parse(api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}");
    await end(token);
    await api.work();
    expect((await costs("", key)).json.items).toMatchObject([{ userId: "bob", turns: 1 }]);
    expect((await costs()).json.items).toMatchObject([{ userId: "bob" }]);
    expect((await costs("?userId=ann")).json.items).toEqual([]);
    expect((await costs("?userId=ann", key)).status).toBe(403);
  });

  it("use the price of their day, and reject invalid days", async () => {
    const { json } = await costs("?from=2026-10-31&to=2026-11-01");
    expect(json.prices.map(({ from }: { from: string }) => from)).toEqual(["2025-11-03", "2026-11-01"]);
    expect((await costs("?from=2026-10-31&to=2026-10-31")).json.prices).toHaveLength(1);
    for (const query of ["?from=x", "?from=2026-11-02&to=2026-11-01", "?from=2025-01-01", "?more=1"])
      expect((await costs(query)).status).toBe(400);
  });
});
