import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../../../test/testing/api.ts";

let api: TestApi;
beforeEach(() => {
  api = createTestApi();
});

const start = (body: Record<string, unknown> = {}, headers: Record<string, string> = {}, key?: string) =>
  api.request("POST", "/v1/tasks", { body: { prompt: "echo hello", ...body }, headers, ...(key && { key }) });

/** Moves a started task to `running`, as a worker would, and returns its runner's token. */
async function run(id: string): Promise<string> {
  const now = api.deps.clock.now();
  await api.deps.store.changeTask(
    id,
    { turn: 1, status: ["queued"] },
    {
      set: { state: { status: "running", commandId: "cmd" }, startedAt: now },
      phase: { turn: 1, status: "running", at: now, by: "worker" },
    },
  );
  return api.deps.sealer.issueToken({ taskId: id, turn: 1, expiresAt: now + 1e6 });
}

const post = (key: string, seq: number, ...texts: string[]) =>
  api.request("POST", "/v1/runner/output", {
    key,
    body: {
      seq,
      chunks: texts.map((text) => ({
        stream: "stdout",
        at: new Date(api.deps.clock.now()).toISOString(),
        data: Buffer.from(text).toString("base64"),
      })),
    },
  });

const end = (key: string, overrides: Record<string, unknown> = {}) =>
  api.request("POST", "/v1/runner/end", {
    key,
    body: {
      lastSeq: 0,
      exitCode: 0,
      signal: null,
      reason: "exited",
      outputCutBytes: 0,
      text: "",
      ...overrides,
    },
  });

describe("POST /v1/tasks", () => {
  it("answers 202 with the task and its location, and queues it for a worker", async () => {
    const { status, headers, json } = await start({ metadata: { k: "v" } });
    expect(status).toBe(202);
    expect(headers.get("location")).toBe(`/v1/tasks/${json.id}`);
    expect(json).toMatchObject({
      status: "queued",
      turn: 1,
      agent: "shell",
      sessionKey: "default",
      keepAlive: true,
      prompt: "echo hello",
      limits: { maxDurationMs: 300_000, inactivityMs: 60_000 },
      metadata: { k: "v" },
      sandbox: null,
      startedAt: null,
      endedAt: null,
      result: null,
      error: null,
      phases: [{ status: "queued", by: "api" }],
    });
    expect(json.id).toMatch(/^task_[0-9a-z]{26}$/);
    expect(json.createdAt).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(api.sent).toEqual([{ kind: "provision", taskId: json.id, turn: 1 }]);
  });

  it("refuses a busy session and names the task that holds it", async () => {
    const first = (await start()).json;
    const { status, json } = await start();
    expect(status).toBe(409);
    expect(json).toMatchObject({ code: "session_busy", taskId: first.id });
    expect((await start({ sessionKey: "other" })).status).toBe(202);
  });

  it("accepts a session again after its turn has ended", async () => {
    const token = await run((await start()).json.id);
    await end(token);
    expect((await start()).status).toBe(202);
  });

  it("frees a session after a grace period if the starter died between lease and task", async () => {
    const { deps } = api;
    const lease = { taskId: "task_that_never_was", turn: 1, at: deps.clock.now() };
    const expiresAt = deps.clock.now() + 1e9;
    await deps.store.changeSession(
      "admin",
      "default",
      { lease: null },
      { set: { lease, lastUsedAt: 1, expiresAt } },
    );
    expect((await start()).status).toBe(409);
    api.advance(30_000);
    expect((await start()).status).toBe(202);
  });

  it("never returns env values or stores them unencrypted", async () => {
    const { json, text } = await start({ env: { SECRET: "hunter2hunter2" } });
    expect(text).not.toContain("hunter2");
    const task = await api.deps.store.getTask(json.id);
    expect(JSON.stringify(task)).not.toContain("hunter2");
    expect(JSON.parse(api.deps.sealer.open(task?.sealed ?? "", json.id))).toEqual({
      env: { SECRET: "hunter2hunter2" },
    });
    await end(await run(json.id));
    expect(await api.deps.store.getTask(json.id)).not.toHaveProperty("sealed");
  });

  describe("with an Idempotency-Key", () => {
    const headers = { "idempotency-key": "once" };

    it("answers a retry with the first task, even after it ended", async () => {
      const first = (await start({}, headers)).json;
      await end(await run(first.id));
      const again = await start({}, headers);
      expect(again.status).toBe(202);
      expect(again.json).toMatchObject({ id: first.id, status: "succeeded" });
    });

    it("ignores the order of fields in the body", async () => {
      const one = await api.request("POST", "/v1/tasks", {
        headers,
        body: '{"prompt":"a","keepAlive":true}',
      });
      const two = await api.request("POST", "/v1/tasks", {
        headers,
        body: '{"keepAlive":true, "prompt":"a"}',
      });
      expect(two.json.id).toBe(one.json.id);
    });

    it("refuses the same key with another body", async () => {
      await start({}, headers);
      const { status, json } = await start({ sessionKey: "other" }, headers);
      expect([status, json.code]).toEqual([409, "idempotency_conflict"]);
    });

    it("is scoped to its user", async () => {
      const first = (await start({}, headers)).json;
      const other = await start({}, headers, await api.keyFor("bob"));
      expect(other.json.id).not.toBe(first.id);
    });

    it("creates one task if a retry follows a crash", async () => {
      const send = api.deps.work.send;
      api.deps.work.send = async () => {
        throw new Error("the queue is down");
      };
      expect((await start({}, headers)).status).toBe(500);
      api.deps.work.send = send;
      const { status, json } = await start({}, headers);
      expect(status).toBe(202);
      expect((await api.request("GET", "/v1/tasks")).json.items).toHaveLength(1);
      expect(api.sent).toEqual([{ kind: "provision", taskId: json.id, turn: 1 }]);
    });
  });
});

describe("GET /v1/tasks/:id", () => {
  it("returns the task", async () => {
    const { id } = (await start()).json;
    const { status, json } = await api.request("GET", `/v1/tasks/${id}`);
    expect([status, json.id]).toEqual([200, id]);
  });

  it("waits no longer than `waitMs`", async () => {
    const { id } = (await start()).json;
    const before = api.deps.clock.now();
    const { json } = await api.request("GET", `/v1/tasks/${id}?waitMs=2000`);
    expect(json.status).toBe("queued");
    expect(api.deps.clock.now() - before).toBe(2000);
  });

  it("answers at once if the turn has ended", async () => {
    const { id } = (await start()).json;
    await end(await run(id));
    const before = api.deps.clock.now();
    expect((await api.request("GET", `/v1/tasks/${id}?waitMs=25000`)).json.status).toBe("succeeded");
    expect(api.deps.clock.now()).toBe(before);
  });
});

describe("GET /v1/tasks", () => {
  it("lists the caller's tasks, newest first, in pages, by status and session", async () => {
    const bob = await api.keyFor("bob");
    for (const sessionKey of ["a", "b", "c"]) await start({ sessionKey });
    await start({}, {}, bob);
    const first = (await api.request("GET", "/v1/tasks?limit=2")).json;
    expect(first.items.map((task: { sessionKey: string }) => task.sessionKey)).toEqual(["c", "b"]);
    const second = (await api.request("GET", `/v1/tasks?limit=2&cursor=${first.cursor}`)).json;
    expect(second).toMatchObject({ items: [{ sessionKey: "a" }], cursor: null });
    expect((await api.request("GET", "/v1/tasks?sessionKey=b")).json.items).toHaveLength(1);
    expect((await api.request("GET", "/v1/tasks?status=running")).json.items).toHaveLength(0);
    expect((await api.request("GET", "/v1/tasks", { key: bob })).json.items).toHaveLength(1);
  });
});

describe("a runner's post", () => {
  it("becomes output, events and the end, each once even if it is repeated", async () => {
    const { id } = (await start()).json;
    const token = await run(id);
    expect((await post(token, 1, "hel", "lo\n")).json).toEqual({ action: "continue" });
    expect((await post(token, 1, "hel", "lo\n")).json).toEqual({ action: "continue" });
    expect((await post(token, 2, "world\n")).json).toEqual({ action: "continue" });
    expect((await end(token, { lastSeq: 2, text: "world" })).json).toEqual({ action: "done" });
    expect((await end(token, { lastSeq: 2, text: "world" })).json).toEqual({ action: "done" });

    expect((await api.request("GET", `/v1/tasks/${id}/output`)).text).toBe("hello\nworld\n");
    const { items, cursor } = (await api.request("GET", `/v1/tasks/${id}/events`)).json;
    expect(items.map((e: { type: string; status?: string; text?: string }) => e.status ?? e.text)).toEqual([
      "queued",
      "running",
      "hel",
      "lo\n",
      "world\n",
      "succeeded",
    ]);
    expect((await api.request("GET", `/v1/tasks/${id}/events?after=${cursor}`)).json).toEqual({
      items: [],
      cursor,
    });
    for (const [i, event] of items.entries()) {
      const rest = (await api.request("GET", `/v1/tasks/${id}/events?after=${event.cursor}`)).json.items;
      expect(rest).toEqual(items.slice(i + 1));
    }
    const task = (await api.request("GET", `/v1/tasks/${id}`)).json;
    expect(task).toMatchObject({ status: "succeeded", result: { exitCode: 0, text: "world" }, error: null });
  });

  it("is answered with `wait` until the launch is recorded", async () => {
    const { id } = (await start()).json;
    const token = api.deps.sealer.issueToken({ taskId: id, turn: 1, expiresAt: api.deps.clock.now() + 1e6 });
    expect((await post(token, 1, "early")).json).toEqual({ action: "wait" });
    expect((await end(token)).json).toEqual({ action: "wait" });
    await run(id);
    expect((await post(token, 1, "early")).json).toEqual({ action: "continue" });
  });

  it("is not accepted after the end, and readers do not see it", async () => {
    const { id } = (await start()).json;
    const token = await run(id);
    await end(token);
    expect((await post(token, 1, "late")).json).toEqual({ action: "stop" });
    expect((await api.request("GET", `/v1/tasks/${id}/output`)).text).toBe("");
  });

  it("must arrive in order", async () => {
    const token = await run((await start()).json.id);
    expect((await post(token, 2, "too soon")).status).toBe(400);
    expect((await end(token, { lastSeq: 1 })).json).toEqual({ action: "wait" });
  });

  it("is refused without the turn's token or after it expired", async () => {
    const { id } = (await start()).json;
    const token = await run(id);
    expect((await post(`${token}x`, 1, "a")).status).toBe(401);
    expect((await post("", 1, "a")).status).toBe(401);
    expect((await post(token.replace(".1.", ".2."), 1, "a")).status).toBe(401);
    const other = api.deps.sealer.issueToken({ taskId: id, turn: 2, expiresAt: api.deps.clock.now() + 1e6 });
    expect((await post(other, 1, "a")).json).toEqual({ action: "stop" });
    api.advance(1e6);
    expect((await post(token, 1, "a")).status).toBe(401);
  });

  it("fails the task if the agent's exit code is not 0", async () => {
    const { id } = (await start()).json;
    await end(await run(id), { exitCode: 7 });
    expect((await api.request("GET", `/v1/tasks/${id}`)).json).toMatchObject({
      status: "failed",
      result: { exitCode: 7 },
      error: { code: "agent_failed", detail: "The agent exited with 7." },
    });
  });

  it("releases the sandbox if it is not kept alive", async () => {
    const { id } = (await start({ keepAlive: false })).json;
    const token = await run(id);
    const sandbox = { name: "box", sessionId: "s", origin: "cold", epoch: 3 } as const;
    await api.deps.store.changeTask(id, { turn: 1, status: ["running"] }, { set: { sandbox } });
    await end(token);
    const sent: unknown[] = [];
    const { send } = api.deps.work;
    api.deps.work.send = async (message) => {
      sent.push(message);
      await send(message);
    };
    await api.work();
    expect(sent).toEqual([{ kind: "release", userId: "admin", sessionKey: "default", epoch: 3 }]);
  });

  it("adds a notice if output was cut", async () => {
    const { id } = (await start()).json;
    await end(await run(id), { outputCutBytes: 12 });
    expect((await api.request("GET", `/v1/tasks/${id}`)).json.notices).toMatchObject([
      { code: "output_cut", turn: 1 },
    ]);
    const { items } = (await api.request("GET", `/v1/tasks/${id}/events`)).json;
    expect(items.map(({ type }: { type: string }) => type)).toEqual(["status", "status", "notice", "status"]);
  });
});

describe("binary output", () => {
  it("is returned byte for byte", async () => {
    const { id } = (await start()).json;
    const token = await run(id);
    const data = Buffer.from([0, 255, 254, 10, 13, 0]).toString("base64");
    await api.request("POST", "/v1/runner/output", {
      key: token,
      body: { seq: 1, chunks: [{ stream: "stderr", at: new Date().toISOString(), data }] },
    });
    const response = await api.request("GET", `/v1/tasks/${id}/output`);
    expect(response.type).toBe("text/plain; charset=utf-8");
    const events = (await api.request("GET", `/v1/tasks/${id}/events`)).json.items;
    expect(events.at(-1)).toMatchObject({ type: "output", stream: "stderr", text: "\0��\n\r\0" });
  });
});
