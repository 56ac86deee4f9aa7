import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing, push, repo } from "../../../test/testing/driver.ts";

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
  it("of a queued task is proven at once, because it was never launched", async () => {
    const id = await start();
    const { status, json } = await stop(id);
    expect([status, json.status, json.error.code]).toEqual([200, "stopped", "stopped_by_user"]);
    await api.work();
    expect(api.world.created).toEqual([]);
    expect((await get(id)).status).toBe("stopped");
  });

  it("of a running task kills it, keeps the sandbox, and reports the duration", async () => {
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

  it("deletes the sandbox without keepAlive", async () => {
    const { id, process } = await running({ keepAlive: false });
    expect((await stop(id)).json.status).toBe("stopped");
    expect(process.alive).toBe(false);
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("deletes the sandbox if a sweep is not clean", async () => {
    const { id } = await running();
    api.deps.provider.sweep = async () => "alive";
    expect((await stop(id)).json.status).toBe("stopped");
    expect(api.world.sandboxes()).toEqual([]);
  });

  it("answers 202 while the provider fails, accepts no output, and is proven by the timer", async () => {
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

  it("is proven without the queue", async () => {
    const { id, process } = await running();
    api.deps.timers.arm = async () => {
      throw new Error("the queue is away");
    };
    expect((await stop(id)).json.status).toBe("stopped");
    expect(process.alive).toBe(false);
  });

  it("accepts a missing sandbox as proof", async () => {
    const { id } = await running();
    api.deps.provider.sweep = failing("gone");
    expect((await stop(id)).json.status).toBe("stopped");
  });

  it("of an ended task answers 200 with the task", async () => {
    const { id, token } = await running();
    await end(token);
    const { status, json } = await stop(id);
    expect([status, json.status]).toEqual([200, "succeeded"]);
  });

  it("of a task that is being pushed answers 409 finalizing", async () => {
    const { id, token } = await running({ repo });
    expect((await say(token, "finalize", push)).json).toMatchObject({ action: "go" });
    const { status, json } = await stop(id);
    expect([status, json.code]).toEqual([409, "finalizing"]);
  });

  it("during a create: the sandbox is deleted by the worker or the reaper", async () => {
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

  it("during a launch into a kept sandbox: the launch is barred and the sandbox stays", async () => {
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
  it("continues from every kind of end in the same sandbox", async () => {
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

  it("is refused while the turn is active, or while another task holds the session", async () => {
    const { id, token } = await running();
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" })).json.code).toBe("task_active");
    await end(token);
    await start();
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x" })).json.code).toBe("session_busy");
  });

  it("creates one turn from concurrent requests", async () => {
    const { id, token } = await running();
    await end(token);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => post(`/v1/tasks/${id}/continue`, { prompt: "x" })),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect((await get(id)).turn).toBe(2);
  });

  it("creates one turn with an Idempotency-Key, however often it is retried", async () => {
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

  it("creates a new sandbox if the old one is gone", async () => {
    const { id, token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    await post(`/v1/tasks/${id}/continue`, { prompt: "x" });
    await api.work();
    expect((await get(id)).sandbox).toMatchObject({ origin: "cold", epoch: 2 });
  });

  it("is refused for a missing task or an invalid body", async () => {
    expect((await post("/v1/tasks/task_none/continue", { prompt: "x" })).json.code).toBe("not_found");
    expect((await post("/v1/tasks/task_none/stop")).json.code).toBe("not_found");
    const id = await start();
    expect((await post(`/v1/tasks/${id}/continue`, {})).json.code).toBe("invalid_request");
    expect((await post(`/v1/tasks/${id}/continue`, { prompt: "x", agent: "codex" })).json.code).toBe(
      "invalid_request",
    );
  });

  it("drops output that came too late for the previous turn", async () => {
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
