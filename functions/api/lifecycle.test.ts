import { ProviderError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "./testing.ts";

let api: TestApi;
beforeEach(() => {
  api = createTestApi();
});

const post = (path: string, body?: unknown, key?: string) =>
  api.request("POST", path, { ...(body !== undefined && { body }), ...(key !== undefined && { key }) });
const start = async (over: Record<string, unknown> = {}): Promise<string> =>
  (await post("/v1/tasks", { prompt: "true", ...over })).json.id;
const get = async (id: string) => (await api.request("GET", `/v1/tasks/${id}`)).json;
const stop = (id: string) => post(`/v1/tasks/${id}/stop`);
const repo = { url: "http://git.test/repo.git", branch: "work", token: "canary-token-123" };

/** Starts a task and brings it to `running`, with its sandbox and its runner's process. */
async function running(over: Record<string, unknown> = {}) {
  const id = await start(over);
  await api.work();
  const process = api.world.processes.at(-1);
  if (!process) throw new Error("nothing was launched");
  const { token } = JSON.parse(process.env.CONCIERGE_TURN ?? "{}") as { token: string };
  return { id, process, token };
}

const say = (token: string, path: string, body: unknown) => post(`/v1/runner/${path}`, body, token);
const end = (token: string, over: Record<string, unknown> = {}) =>
  say(token, "end", {
    lastSeq: 0,
    exitCode: 0,
    signal: null,
    reason: "exited",
    outputCutBytes: 0,
    text: "",
    ...over,
  });
const push = { commit: "c".repeat(40), branch: "work", exitCode: 0, text: "done" };
const failing = (kind: "transient" | "gone") => async () => {
  throw new ProviderError(kind, "the provider is away");
};

describe("stop", () => {
  it("of a queued task is proven at once: nobody can have launched it", async () => {
    const id = await start();
    const { status, json } = await stop(id);
    expect([status, json.status, json.error.code]).toEqual([200, "stopped", "stopped_by_user"]);
    await api.work();
    expect(api.world.created).toEqual([]);
    expect((await get(id)).status).toBe("stopped");
  });

  it("of a running one kills it, keeps the sandbox, and tells how long it took", async () => {
    const { id, process } = await running();
    const { status, json } = await stop(id);
    expect([status, json.status]).toEqual([200, "stopped"]);
    expect(json.timings.stopMs).toEqual(expect.any(Number));
    expect(process.alive).toBe(false);
    expect(api.world.sandboxes()).toHaveLength(1);
    expect(api.counted).toEqual(expect.arrayContaining(["stop_requested", "stop_proven", "stop_ms"]));
  });

  it("without keepAlive takes the sandbox with it", async () => {
    const { id, process } = await running({ keepAlive: false });
    expect((await stop(id)).json.status).toBe("stopped");
    expect(process.alive).toBe(false);
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("takes the sandbox too when a sweep does not come out clean", async () => {
    const { id } = await running();
    api.deps.provider.sweep = async () => false;
    expect((await stop(id)).json.status).toBe("stopped");
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("is 202 while the provider fails, takes no output meanwhile, and is made good by the timer", async () => {
    const { id, process, token } = await running();
    const { sweep, remove } = api.deps.provider;
    Object.assign(api.deps.provider, { sweep: failing("transient"), remove: failing("transient") });
    const { status, json } = await stop(id);
    expect([status, json.status]).toEqual([202, "stopping"]);
    expect(api.counted).toContain("stop_unproven");
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "stop" });
    expect((await say(token, "finalize", push)).status).toBe(400);

    Object.assign(api.deps.provider, { sweep, remove });
    await api.fire("terminate");
    expect((await get(id)).status).toBe("stopped");
    expect(process.alive).toBe(false);
  });

  it("takes a sandbox that is gone for proof", async () => {
    const { id } = await running();
    api.deps.provider.sweep = failing("gone");
    expect((await stop(id)).json.status).toBe("stopped");
  });

  it("of an ended task is a 200 with what it is", async () => {
    const { id, token } = await running();
    await end(token);
    const { status, json } = await stop(id);
    expect([status, json.status]).toEqual([200, "succeeded"]);
  });

  it("of one that is being pushed is a 409 that says so", async () => {
    const { id, token } = await running({ repo });
    expect((await say(token, "finalize", push)).json).toMatchObject({ action: "go" });
    const { status, json } = await stop(id);
    expect([status, json.code]).toEqual([409, "finalizing"]);
  });

  it("while a worker creates its sandbox: what comes into being is deleted, by the worker or by the reaper", async () => {
    const { create } = api.deps.provider;
    let id = "";
    api.deps.provider.create = async (options) => {
      expect((await stop(id)).json.status).toBe("stopped");
      return await create(options);
    };
    id = await start();
    await api.work();
    expect(api.world.created).toHaveLength(1);
    expect(api.world.sandboxes()).toEqual([]);
    expect(api.world.processes).toEqual([]);
    expect((await get(id)).status).toBe("stopped");
  });

  it("while a worker launches into a kept sandbox: the launch is barred, the sandbox stays", async () => {
    const { id: first, token } = await running();
    await end(token);
    const { launch } = api.deps.provider;
    api.deps.provider.launch = async (...given) => {
      expect((await stop(first)).json.status).toBe("stopped");
      return await launch(...given);
    };
    await post(`/v1/tasks/${first}/continue`, { prompt: "more" });
    await api.work();
    expect(api.world.processes).toHaveLength(1);
    expect(api.world.sandboxes()).toHaveLength(1);
    expect((await get(first)).status).toBe("stopped");
  });
});

describe("continue", () => {
  it("goes on from every end, in the same sandbox, with a turn more", async () => {
    const { id, token } = await running();
    await end(token, { exitCode: 3 });
    for (const turn of [2, 3]) {
      const { status, json } = await post(`/v1/tasks/${id}/continue`, {
        prompt: `turn ${turn}`,
        limits: { maxDurationMs: 9000 },
      });
      expect([status, json.status, json.turn, json.prompt]).toEqual([202, "queued", turn, `turn ${turn}`]);
      expect(json.limits).toMatchObject({ maxDurationMs: 9000, inactivityMs: 60_000 });
      await api.work();
      expect((await get(id)).sandbox).toMatchObject({ origin: "reused", epoch: 1 });
      expect((await stop(id)).json.status).toBe("stopped");
    }
  });

  it("is refused while the turn is active, and while another task has the session", async () => {
    const { id, token } = await running();
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" })).json.code).toBe("task_active");
    await end(token);
    await start();
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" })).json.code).toBe("session_busy");
  });

  it("is one turn, however many ask at once", async () => {
    const { id, token } = await running();
    await end(token);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => post(`/v1/tasks/${id}/continue`, { prompt: "x" })),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect((await get(id)).turn).toBe(2);
  });

  it("with an Idempotency-Key is one turn, however often it is retried", async () => {
    const { id, token } = await running();
    await end(token);
    const again = () =>
      api.request("POST", `/v1/tasks/${id}/continue`, {
        body: { prompt: "x" },
        headers: { "idempotency-key": "k" },
      });
    expect((await again()).json.turn).toBe(2);
    expect((await again()).json.turn).toBe(2);
    await api.work();
    await stop(id);
    expect((await again()).json).toMatchObject({ turn: 2, status: "stopped" });
  });

  it("makes a new sandbox where the old one is gone", async () => {
    const { id, token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    await post(`/v1/tasks/${id}/continue`, { prompt: "x" });
    await api.work();
    expect((await get(id)).sandbox).toMatchObject({ origin: "cold", epoch: 2 });
  });

  it("of a task that is not there, or with a body that is not right, is refused", async () => {
    expect((await post("/v1/tasks/task_none/continue", { prompt: "x" })).json.code).toBe("not_found");
    expect((await post("/v1/tasks/task_none/stop")).json.code).toBe("not_found");
    const id = await start();
    expect((await post(`/v1/tasks/${id}/continue`, {})).json.code).toBe("invalid_request");
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x", agent: "codex" })).json.code).toBe(
      "invalid_request",
    );
  });

  it("does not show output that came too late for the turn before", async () => {
    const { id, token } = await running();
    const batch = {
      seq: 1,
      chunks: [{ stream: "stdout", at: "2026-11-01T12:00:00.000Z", data: "bGF0ZQ==" }],
    };
    const { changeTask } = api.deps.store;
    api.deps.store.changeTask = async (...given) => {
      api.deps.store.changeTask = changeTask;
      await stop(id);
      return await changeTask(...given);
    };
    expect((await say(token, "output", batch)).json).toEqual({ action: "stop" });
    await post(`/v1/tasks/${id}/continue`, { prompt: "x" });
    expect((await api.request("GET", `/v1/tasks/${id}/output`)).text).toBe("");
  });
});

describe("the deadline", () => {
  it("ends the turn as timed_out, and its processes with it, whoever comes to see", async () => {
    for (const fire of [() => api.fire("deadline"), () => post("/v1/reap", {})]) {
      const { id, process } = await running({
        sessionKey: crypto.randomUUID(),
        limits: { maxDurationMs: 60_000 },
      });
      await fire();
      expect((await get(id)).status).toBe("running");
      api.advance(66_000);
      await fire();
      expect(await get(id)).toMatchObject({ status: "timed_out", error: { code: "deadline_exceeded" } });
      expect(process.alive).toBe(false);
    }
  });

  it("passes without a push: from then on none is granted", async () => {
    const { id, token } = await running({ repo, limits: { maxDurationMs: 60_000 } });
    api.advance(60_000);
    expect((await say(token, "finalize", push)).json).toEqual({ action: "stop" });
    await api.fire("deadline");
    expect((await get(id)).status).toBe("timed_out");
  });

  it("that the runner saw first is proven by a timer before it is written", async () => {
    const { id, token, process } = await running();
    expect((await end(token, { reason: "deadline", exitCode: null })).json).toEqual({ action: "done" });
    expect((await get(id)).status).toBe("stopping");
    await api.fire("terminate");
    expect((await get(id)).status).toBe("timed_out");
    expect(process.alive).toBe(false);
  });
});

describe("silence", () => {
  it("is asked about once, then ended as inactivity_timeout", async () => {
    const { id, process } = await running({ limits: { inactivityMs: 5000 } });
    api.advance(5000);
    await api.fire("inactivity");
    expect(await get(id)).toMatchObject({ status: "failed", error: { code: "inactivity_timeout" } });
    expect(process.alive).toBe(false);
    expect(api.counted).toContain("inactivity_ended");
  });

  it.each([
    ["output that could not be delivered", { lastOutputAt: undefined, undelivered: true, activity: "none" }],
    ["an agent that waits for its model", { lastOutputAt: undefined, undelivered: false, activity: "model" }],
    ["an agent that waits for a tool", { lastOutputAt: undefined, undelivered: false, activity: "tool" }],
  ] as const)("is not %s", async (_what, state) => {
    const { id, process } = await running({ limits: { inactivityMs: 5000 } });
    process.state = state;
    api.advance(5000);
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
    expect(api.armed).toContainEqual({ kind: "inactivity", taskId: id, turn: 1, delayMs: 5000 });
  });

  it("is not a beat that says it works, nor a provider that does not answer", async () => {
    const { id, token } = await running({ limits: { inactivityMs: 5000 } });
    api.advance(4000);
    await say(token, "beat", { activity: "tool" });
    api.advance(2000);
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
    api.advance(4000);
    api.deps.provider.find = failing("transient");
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
  });
});

describe("the push", () => {
  it("is granted by one write, and its outcome is the result", async () => {
    const { id, token } = await running({ repo });
    expect((await say(token, "clone", { nonce: "n".repeat(20) })).json).toEqual({
      action: "go",
      credential: { username: "x-access-token", token: repo.token },
    });
    expect((await say(token, "finalize", push)).json).toMatchObject({
      action: "go",
      credential: { token: repo.token },
    });
    expect((await get(id)).status).toBe("finalizing");
    expect((await end(token, { pushed: true })).json).toEqual({ action: "done" });
    expect(await get(id)).toMatchObject({
      status: "succeeded",
      result: { commit: push.commit, branch: "work", pushed: true, text: "done", exitCode: 0 },
    });
    expect(JSON.stringify(await api.deps.store.getTask(id))).not.toContain("sealed");
  });

  it("that the remote refused is push_failed", async () => {
    const { id, token } = await running({ repo });
    await say(token, "finalize", push);
    await end(token, { pushed: false });
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "push_failed" },
      result: { pushed: false },
    });
  });

  it("that nobody told the outcome of is looked up, after its runner is dead", async () => {
    for (const [landed, status] of [
      [true, "succeeded"],
      [false, "failed"],
    ] as const) {
      const { id, token, process } = await running({ repo, sessionKey: status });
      await say(token, "finalize", push);
      if (landed) api.refs.set(`${repo.url} work`, push.commit);
      else api.refs.clear();
      api.advance(60_000);
      await api.fire("finalize");
      expect(await get(id)).toMatchObject({ status, result: { pushed: landed } });
      expect(process.alive).toBe(false);
    }
  });

  it("is not granted after a stop, whichever of them was first to ask", async () => {
    const { id, token } = await running({ repo });
    await stop(id);
    expect((await say(token, "finalize", push)).json).toEqual({ action: "stop" });
  });

  it("to clone is granted to the first alone: an agent that asks later gets nothing", async () => {
    const { token } = await running({ repo });
    const nonce = "first-asker-nonce-1";
    expect((await say(token, "clone", { nonce })).json.action).toBe("go");
    expect((await say(token, "clone", { nonce })).json.action).toBe("go");
    expect((await say(token, "clone", { nonce: "another-asker-nonce" })).json).toEqual({ action: "stop" });
  });

  it("is not granted to a task that has no repo", async () => {
    const { token } = await running();
    expect((await say(token, "finalize", push)).json.code).toBe("invalid_request");
  });

  it.each([
    ["a credential in the URL", { url: "https://user:pass@git.test/r" }],
    ["no URL", { url: "not a url" }],
    ["another scheme", { url: "ssh://git@git.test/r" }],
    ["a branch that is an option", { url: repo.url, branch: "--force" }],
    ["a branch that goes up", { url: repo.url, branch: "a/../b" }],
    ["an unknown field", { url: repo.url, depth: 1 }],
  ])("is refused with %s", async (_what, given) => {
    const { status, json } = await post("/v1/tasks", { prompt: "x", repo: given });
    expect([status, json.code]).toEqual([400, "invalid_request"]);
  });

  it.each([
    "http://git.example/r",
    "https://localhost/r",
    "https://10.1.2.3/r",
    "https://169.254.169.254/r",
    "https://[::1]/r",
  ])("is refused to %s where private hosts are not allowed", async (url) => {
    api.deps.config = { ...api.deps.config, allowPrivateHosts: false };
    const { status, json } = await post("/v1/tasks", { prompt: "x", repo: { url } });
    expect([status, json.issues?.[0]?.path]).toEqual([400, "repo.url"]);
  });
});

describe("the reaper", () => {
  const reap = async (body: unknown = {}) => (await post("/v1/reap", body)).json;
  const hour = 3_600_000;

  it("sends a worker to what nobody works on", async () => {
    const id = await start();
    api.sent.length = 0;
    api.advance(10_000);
    expect((await reap()).tasks).toEqual({ provision: 1 });
    await api.work();
    expect((await get(id)).status).toBe("running");
  });

  it("releases a session that nobody used for long, never one under a lease", async () => {
    const { token } = await running({ limits: { maxDurationMs: 2 * hour, inactivityMs: 2 * hour } });
    api.advance(hour);
    expect((await reap()).sessions).toEqual({ kept: 1 });
    await end(token);
    api.advance(hour / 4);
    expect((await reap()).sessions).toEqual({ kept: 1 });
    api.advance(hour / 2);
    expect((await reap()).sessions).toEqual({ released: 1 });
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("forgets a sandbox that is gone", async () => {
    const { token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    api.advance(hour);
    expect((await reap()).sessions).toEqual({ forgotten: 1 });
    expect(await api.deps.store.getSession("admin", "default")).not.toHaveProperty("sandbox");
  });

  it("deletes what no session names, once it can not be on its way any more, and only what is ours", async () => {
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

  it("looks again for what was being created when its turn was stopped and its worker died", async () => {
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

  it("over the cap releases the least recently used, never one under a lease", async () => {
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

  it("fills the warm pool up, and a warm sandbox goes to one session and to no other", async () => {
    api = createTestApi({ ...api.deps.config, warmTarget: 2 });
    expect(await reap()).toMatchObject({ warmed: 2 });
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
    expect(api.world.sandboxes()).toHaveLength(5);
  });

  it("deletes a warm sandbox whose claimer died before its session had it", async () => {
    api = createTestApi({ ...api.deps.config, warmTarget: 1 });
    await reap();
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

  it("goes on with the others when one fails, and says so", async () => {
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

  it("costs what is due, not what exists", async () => {
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

  it("ends when its time is over, and the next sweep goes on", async () => {
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

  it("does no harm when two run at once, and is for admins", async () => {
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
  });
});

describe("each flag switches exactly its mechanism:", () => {
  const put = async (flags: Record<string, string>) => {
    const answer = await api.request("PUT", "/v1/flags", { body: flags });
    api.advance(10_000);
    return answer;
  };

  it("they are read, changed, and refused when they are none", async () => {
    const { json } = await api.request("GET", "/v1/flags");
    expect(Object.values(json)).toEqual(Array(5).fill("true"));
    expect((await put({ ENABLE_HEALTH_PROBE: "25%" })).json).toEqual({ ...json, ENABLE_HEALTH_PROBE: "25%" });
    expect((await put({ ENABLE_HEALTH_PROBE: "101%" })).status).toBe(400);
    expect((await put({ ENABLE_TELEPATHY: "true" })).status).toBe(400);
    const key = await api.keyFor("bob");
    expect((await api.request("GET", "/v1/flags", { key })).status).toBe(403);
    expect((await api.request("PUT", "/v1/flags", { key, body: {} })).status).toBe(403);
  });

  it("ENABLE_DB_BACKED_STOP off: a stop only reaches the runner, by its own next question", async () => {
    await put({ ENABLE_DB_BACKED_STOP: "false" });
    const { id, process, token } = await running();
    expect((await stop(id)).status).toBe(202);
    expect(process.alive).toBe(true);
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "stop" });
    await api.fire("terminate");
    expect((await get(id)).status).toBe("stopped");
  });

  it("ENABLE_CANCELLATION_CHECKS off: a runner is not told; the provider's kill reaches it all the same", async () => {
    await put({ ENABLE_CANCELLATION_CHECKS: "false" });
    const { id, process, token } = await running();
    const { sweep, remove } = api.deps.provider;
    Object.assign(api.deps.provider, { sweep: failing("transient"), remove: failing("transient") });
    await stop(id);
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "continue" });
    Object.assign(api.deps.provider, { sweep, remove });
    await api.fire("terminate");
    expect(process.alive).toBe(false);
  });

  it("ENABLE_HEALTH_PROBE off: a sandbox is used again unasked", async () => {
    for (const [value, probes] of [
      ["true", 1],
      ["false", 0],
    ] as const) {
      await put({ ENABLE_HEALTH_PROBE: value });
      const { id, token } = await running({ sessionKey: value });
      await end(token);
      let asked = 0;
      const { find } = api.deps.provider;
      api.deps.provider.find = async (name) => {
        asked += 1;
        return await find(name);
      };
      await post(`/v1/tasks/${id}/continue`, { prompt: "x" });
      await api.work();
      api.deps.provider.find = find;
      expect(asked).toBe(probes);
      expect((await get(id)).sandbox.origin).toBe("reused");
    }
  });

  it("ENABLE_INACTIVITY_TIMEOUT off: silence ends nothing", async () => {
    await put({ ENABLE_INACTIVITY_TIMEOUT: "false" });
    const { id, process } = await running({ limits: { maxDurationMs: 90_000, inactivityMs: 5000 } });
    expect(JSON.parse(process.env.CONCIERGE_TURN ?? "").inactivityMs).toBeGreaterThan(50_000);
    api.advance(50_000);
    await api.fire("inactivity");
    await post("/v1/reap", {});
    expect((await get(id)).status).toBe("running");
  });

  it("ENABLE_AUTHORITATIVE_TIMEOUT off: the deadline is the runner's alone to keep", async () => {
    await put({ ENABLE_AUTHORITATIVE_TIMEOUT: "false" });
    const { id } = await running({ limits: { maxDurationMs: 60_000, inactivityMs: 3_600_000 } });
    api.advance(100_000);
    await api.fire("deadline");
    await post("/v1/reap", {});
    expect((await get(id)).status).toBe("running");
  });
});
