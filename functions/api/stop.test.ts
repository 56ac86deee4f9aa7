import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing, push, repo } from "./testing-driver.ts";

let api: Driver["api"];
let end: Driver["end"];
let get: Driver["get"];
let post: Driver["post"];
let running: Driver["running"];
let say: Driver["say"];
let start: Driver["start"];
let stop: Driver["stop"];
beforeEach(() => {
  ({ api, end, get, post, running, say, start, stop } = createDriver());
});

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
    expect(api.counted).toEqual(
      expect.arrayContaining(["stop_requested", "stop_proven stopped_by_user", "stop_ms stopped_by_user"]),
    );
  });

  it("without keepAlive takes the sandbox with it", async () => {
    const { id, process } = await running({ keepAlive: false });
    expect((await stop(id)).json.status).toBe("stopped");
    expect(process.alive).toBe(false);
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("takes the sandbox too when a sweep does not come out clean", async () => {
    const { id } = await running();
    api.deps.provider.sweep = async () => "alive";
    expect((await stop(id)).json.status).toBe("stopped");
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("is 202 while the provider fails, takes no output meanwhile, and is made good by the timer", async () => {
    const { id, process, token } = await running();
    const { sweep, remove } = api.deps.provider;
    Object.assign(api.deps.provider, { sweep: failing("transient"), remove: failing("transient") });
    const { status, json } = await stop(id);
    expect([status, json.status]).toEqual([202, "stopping"]);
    expect(api.counted).toContain("stop_unproven stopped_by_user");
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "stop" });
    expect((await say(token, "finalize", push)).status).toBe(400);

    Object.assign(api.deps.provider, { sweep, remove });
    await api.fire("terminate");
    expect((await get(id)).status).toBe("stopped");
    expect(process.alive).toBe(false);
  });

  it("needs no queue: without its timers it is proven all the same", async () => {
    const { id, process } = await running();
    api.deps.timers.arm = async () => {
      throw new Error("the queue is away");
    };
    expect((await stop(id)).json.status).toBe("stopped");
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
