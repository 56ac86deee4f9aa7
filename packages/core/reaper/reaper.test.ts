import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let end: Driver["end"];
let get: Driver["get"];
let post: Driver["post"];
let running: Driver["running"];
let start: Driver["start"];
let stop: Driver["stop"];
function use(config?: Parameters<typeof createTestApi>[0]): void {
  ({ api, end, get, post, running, start, stop } = createDriver(createTestApi(config)));
}
beforeEach(() => use());

describe("the reaper", () => {
  const reap = async (body: unknown = {}) => (await post("/v1/reap", body)).json;
  const hour = 3_600_000;

  it("sends a worker to a turn that nobody works on", async () => {
    const id = await start();
    api.sent.length = 0;
    api.advance(10_000);
    expect((await reap()).tasks).toEqual({ provision: 1 });
    await api.work();
    expect((await get(id)).status).toBe("running");
  });

  it("releases an idle session, never one under a lease", async () => {
    const { token } = await running({ limits: { maxDurationMs: 2 * hour, inactivityMs: 2 * hour } });
    api.advance(hour);
    expect((await reap()).sessions).toEqual({});
    await end(token);
    api.advance(hour / 4);
    expect((await reap()).sessions).toEqual({});
    expect(api.world.sandboxes()).toHaveLength(1);
    api.advance(hour / 2);
    expect((await reap()).sessions).toEqual({ released: 1 });
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("spares a session that is used during the pass", async () => {
    const { token } = await running();
    await end(token);
    api.advance(hour / 2);
    const { provider } = api.deps;
    const probe = provider.probe;
    provider.probe = async (name) => {
      provider.probe = probe;
      expect((await post("/v1/sessions/default/exec", { command: "true" })).status).toBe(200);
      return await probe(name);
    };
    await reap();
    expect(provider.probe).toBe(probe);
    expect(api.world.sandboxes().map(({ name }) => name)).toEqual(api.world.created);
    expect((await api.deps.store.getSession("admin", "default"))?.sandbox?.state).toBe("ready");
  });

  it("forgets a sandbox that is gone", async () => {
    const { token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    api.advance(hour);
    expect((await reap()).sessions).toEqual({ forgotten: 1 });
    expect(await api.deps.store.getSession("admin", "default")).not.toHaveProperty("sandbox");
  });

  it("deletes old sandboxes of this stage that no record names", async () => {
    const { provider } = api.deps;
    const tags = { app: "concierge", stage: "test", user: "admin", session: "none" };
    await provider.create({ name: "orphan", tags, timeoutMs: 9 * hour });
    await provider.create({ name: "other app", tags: { ...tags, app: "other" }, timeoutMs: 9 * hour });
    await provider.create({ name: "other stage", tags: { ...tags, stage: "prod" }, timeoutMs: 9 * hour });
    expect((await reap()).orphans).toEqual([]);
    api.advance(120_000);
    expect((await reap({ dryRun: true })).orphans).toEqual(["orphan"]);
    expect(api.world.sandboxes()).toHaveLength(3);
    expect((await reap()).orphans).toEqual(["orphan"]);
    expect(api.world.sandboxes().map(({ name }) => name)).toEqual(["other app", "other stage"]);
    expect(api.counted).toContain("orphan_deleted");
  });

  it("finds the sandbox of a dead worker whose turn was stopped during the create", async () => {
    const { create } = api.deps.provider;
    let late: () => Promise<unknown> = async () => {};
    let id = "";
    api.deps.provider.create = async (options) => {
      late = () => create(options);
      await stop(id);
      throw new Error("the worker is no more");
    };
    id = await start();
    await expect(api.work()).rejects.toThrow();
    await late();
    expect(api.world.sandboxes()).toHaveLength(1);
    api.advance(hour);
    await reap();
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("releases the least recently used session over the cap, never one under a lease", async () => {
    const tokens: string[] = [];
    for (const sessionKey of ["oldest", "leased", "newest"]) {
      tokens.push((await running({ sessionKey, limits: { inactivityMs: hour, maxDurationMs: hour } })).token);
      api.advance(1000);
    }
    await end(tokens[0] ?? "");
    await end(tokens[2] ?? "");
    api.advance(120_000);
    api.deps.config = { ...api.deps.config, poolMax: 2 };
    expect(await reap()).toMatchObject({ evicted: 1 });
    expect(await api.deps.store.getSession("admin", "oldest")).not.toHaveProperty("sandbox");
    api.deps.config = { ...api.deps.config, poolMax: 1 };
    expect(await reap()).toMatchObject({ evicted: 1 });
    expect(await api.deps.store.getSession("admin", "leased")).toHaveProperty("sandbox");
    expect(api.world.sandboxes()).toHaveLength(1);
  });

  it("refills the warm pool, and a warm sandbox goes to exactly one session", async () => {
    use({ ...api.deps.config, warmTarget: 2 });
    expect(await reap()).toMatchObject({ warmed: 2 });
    await api.work();
    expect(await reap()).toMatchObject({ warmed: 0 });
    const users = await Promise.all(["ann", "bob", "eve"].map((userId) => api.keyFor(userId)));
    const ids = await Promise.all(
      users.map(async (key) => (await post("/v1/tasks", { prompt: "x" }, key)).json.id),
    );
    await api.work();
    const tasks = await Promise.all(ids.map((id) => api.deps.store.getTask(id)));
    expect(tasks.map((task) => task?.sandbox?.origin).sort()).toEqual(["cold", "warm", "warm"]);
    expect(new Set(tasks.map((task) => task?.sandbox?.name)).size).toBe(3);

    api.advance(120_000);
    expect(await reap()).toMatchObject({ orphans: [], warmed: 2 });
    await api.work();
    expect(api.world.sandboxes()).toHaveLength(5);
  });

  it("makes an expiring warm sandbox unclaimable before it removes it", async () => {
    use({ ...api.deps.config, warmTarget: 1 });
    await reap();
    await api.work();
    const [warm] = await api.deps.store.listWarm();
    if (!warm) throw new Error("none was made");
    api.advance(warm.expiresAt - api.deps.clock.now() - 5 * 60_000);
    const { provider, store } = api.deps;
    const { remove } = provider;
    let listed: string[] | undefined;
    provider.remove = async (name, options) => {
      if (name === warm.name) listed = (await store.listWarm()).map((one) => one.name);
      await remove(name, options);
    };
    await reap();
    expect(listed).toEqual([]);
    expect(api.world.exists(warm.name)).toBe(false);
  });

  it("deletes a warm sandbox whose claimer died before recording it", async () => {
    use({ ...api.deps.config, warmTarget: 1 });
    await reap();
    await api.work();
    const [warm] = await api.deps.store.listWarm();
    const { changeSession } = api.deps.store;
    await start();
    api.deps.store.changeSession = async () => {
      throw new Error("the worker is no more");
    };
    await expect(api.work()).rejects.toThrow();
    api.deps.store.changeSession = changeSession;
    api.advance(120_000);
    expect((await reap()).orphans).toEqual([warm?.name]);
  });

  it("continues with the others when one item fails, and reports it", async () => {
    await start({ sessionKey: "a" });
    await start({ sessionKey: "b" });
    api.advance(10_000);
    const { getTask } = api.deps.store;
    let first = true;
    api.deps.store.getTask = async (id) => {
      if (first) {
        first = false;
        throw new Error("the table did not answer");
      }
      return await getTask(id);
    };
    const report = await reap();
    expect(report.failures).toEqual(["the table did not answer"]);
    expect(report.tasks).toEqual({ provision: 1 });
  });

  it("costs as much as is due, not as much as exists", async () => {
    for (let i = 0; i < 50; i++) {
      const { token } = await running({ sessionKey: `s${i}`, keepAlive: false });
      await end(token);
    }
    await api.work();
    await start({ sessionKey: "due" });
    api.advance(20_000);
    let reads = 0;
    const { getTask, getSession } = api.deps.store;
    api.deps.store.getTask = async (id) => {
      reads += 1;
      return await getTask(id);
    };
    api.deps.store.getSession = async (...given) => {
      reads += 1;
      return await getSession(...given);
    };
    expect((await reap()).tasks).toEqual({ provision: 1 });
    expect(reads).toBeLessThan(5);
  });

  it("ends when its time is over, and the next pass continues", async () => {
    const ids = await Promise.all(Array.from({ length: 30 }, (_, i) => start({ sessionKey: `s${i}` })));
    api.sent.length = 0;
    api.advance(10_000);
    const { getTask } = api.deps.store;
    let atOnce = 0;
    let most = 0;
    api.deps.store.getTask = async (id) => {
      most = Math.max(most, ++atOnce);
      api.advance(2000);
      await Promise.resolve();
      atOnce -= 1;
      return await getTask(id);
    };
    const first = await reap();
    expect(first.complete).toBe(false);
    expect(first.tasks.provision).toBeLessThan(30);
    expect(most).toBeLessThanOrEqual(8);
    api.deps.store.getTask = getTask;
    expect((await reap()).complete).toBe(true);
    expect(new Set(api.sent.map((message) => "taskId" in message && message.taskId))).toEqual(new Set(ids));
  });

  it("is safe to run twice at once, and for admins only", async () => {
    const { id } = await running({ limits: { maxDurationMs: 60_000 } });
    api.advance(70_000);
    await Promise.all([reap(), reap(), reap()]);
    expect((await get(id)).phases.map(({ status }: { status: string }) => status)).toEqual([
      "queued",
      "provisioning",
      "running",
      "stopping",
      "timed_out",
    ]);
    expect((await post("/v1/reap", {}, await api.keyFor("bob"))).status).toBe(403);
    expect((await post("/v1/reap", { dry: true })).status).toBe(400);
    expect((await post("/v1/reap")).status).toBe(200);
  });
});
