import { parseConfig } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi } from "../../../test/testing/api.ts";
import { createDriver, type Driver, failing } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let { start, get, post, running, end } = createDriver();
beforeEach(() => {
  ({ api, start, get, post, running, end } = createDriver());
});

function use(variables: Record<string, string>): void {
  const config = parseConfig({ CONCIERGE_DEFAULT_AGENT: "shell", CONCIERGE_STAGE: "test", ...variables });
  ({ api, start, get, post, running, end } = createDriver(createTestApi(config)));
}

const put = (key: string, as?: string) =>
  api.request("PUT", `/v1/sessions/${key}`, as === undefined ? {} : { key: as });
const see = async (key: string, query = "") => await api.request("GET", `/v1/sessions/${key}${query}`);
const remove = async (key: string) => await api.request("DELETE", `/v1/sessions/${key}`);
const continued = async (id: string) => {
  await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
  await api.work();
  return await get(id);
};

describe("PUT /v1/sessions/:key", () => {
  it("answers 202 until the sandbox is ready, then 200, and a task starts in it", async () => {
    const first = await put("room");
    expect(first).toMatchObject({ status: 202, json: { key: "room", isReady: false, sandbox: null } });
    await api.work();
    expect(await put("room")).toMatchObject({
      status: 200,
      json: { isReady: true, health: "healthy", sandbox: { state: "ready", origin: "cold" } },
    });
    const id = await start({ sessionKey: "room" });
    await api.work();
    expect((await get(id)).sandbox).toMatchObject({ origin: "reused", epoch: 1 });
    expect(api.world.created).toHaveLength(1);
  });

  it("creates one sandbox, however often it is requested", async () => {
    for (let i = 0; i < 5; i++) await put("room");
    await api.work();
    expect(api.world.created).toHaveLength(1);
  });

  it("answers 202 again when the sandbox is gone, and creates another", async () => {
    await put("room");
    await api.work();
    api.world.lose(api.world.created[0] ?? "");
    expect((await put("room")).status).toBe(202);
    await api.work();
    expect(await put("room")).toMatchObject({ status: 200, json: { epoch: 2 } });
  });

  it("retries in the background while the provider does not answer", async () => {
    const { create } = api.deps.provider;
    api.deps.provider.create = failing("transient");
    await put("room");
    await api.work();
    api.deps.provider.create = create;
    api.advance(5000);
    await api.work();
    expect((await put("room")).status).toBe(200);
  });

  it("rejects an invalid key", async () => {
    expect((await put("no%20room")).json.code).toBe("invalid_request");
  });
});

describe("a session", () => {
  it("shows its sandbox, its holder and its idle time", async () => {
    const { id, token } = await running({ sessionKey: "room" });
    expect((await see("room")).json).toMatchObject({
      lease: { taskId: id, turn: 1 },
      idleMs: null,
      health: null,
    });
    await end(token);
    api.advance(7000);
    const { json } = await see("room");
    expect(json).toMatchObject({ lease: null, isReady: true, epoch: 1 });
    expect(json.idleMs).toBeGreaterThanOrEqual(7000);
  });

  it.each([
    ["healthy", () => {}],
    ["resumable", (name: string) => api.world.stop(name)],
    ["gone", (name: string) => api.world.lose(name)],
    ["unknown", () => Object.assign(api.deps.provider, { probe: failing("transient") })],
  ])("reports its health as %s", async (health, befall) => {
    const { token } = await running({ sessionKey: "room" });
    await end(token);
    befall(api.world.created[0] ?? "");
    const { json } = await see("room", "?probe=true");
    expect(json).toMatchObject({ health, isReady: health === "healthy", sandbox: { state: "ready" } });
  });

  it("is listed newest first, page by page, without other users' sessions", async () => {
    for (const key of ["a", "b", "c"]) {
      await put(key);
      api.advance(1);
    }
    await put("theirs", await api.keyFor("bob"));
    const first = (await api.request("GET", "/v1/sessions?limit=2")).json;
    expect(first.items.map(({ key }: { key: string }) => key)).toEqual(["c", "b"]);
    const second = (await api.request("GET", `/v1/sessions?limit=2&cursor=${first.cursor}`)).json;
    expect(second.items.map(({ key }: { key: string }) => key)).toEqual(["a"]);
    expect(second.cursor).toBeNull();
    expect((await api.request("GET", "/v1/sessions?cursor=x")).json.code).toBe("invalid_cursor");
  });

  it("is listed with its health on request", async () => {
    for (const key of ["none", "lost", "well"]) {
      await put(key);
      if (key !== "none") await api.work();
      api.sent.length = 0;
      api.advance(1);
    }
    api.world.lose(api.world.created[0] ?? "");
    const healths = async (query: string) =>
      (await api.request("GET", `/v1/sessions${query}`)).json.items.map(
        ({ key, health }: { key: string; health: string | null }) => [key, health],
      );
    expect(await healths("?probe=true")).toEqual([
      ["well", "healthy"],
      ["lost", "gone"],
      ["none", null],
    ]);
    expect(await healths("")).toEqual([
      ["well", null],
      ["lost", null],
      ["none", null],
    ]);
  });

  it("is separate from another user's of the same name, and answers 404 if it does not exist", async () => {
    await put("room");
    const key = await api.keyFor("bob");
    for (const [method, path, body] of [
      ["GET", "", undefined],
      ["DELETE", "", undefined],
      ["POST", "/reset", undefined],
      ["POST", "/extend", { durationMs: 1000 }],
      ["POST", "/exec", { command: "true" }],
    ] as const) {
      const options = { key, ...(body && { body }) };
      expect((await api.request(method, `/v1/sessions/room${path}`, options)).status).toBe(404);
    }
  });
});

describe("POST /v1/sessions/:key/extend", () => {
  const minute = 60_000;

  it("extends the sandbox up to the plan's maximum, and keeps it while idle", async () => {
    use({ SANDBOX_MAX_LIFE_MS: String(60 * minute), SESSION_IDLE_TIMEOUT_MS: String(10 * minute) });
    await put("room");
    await api.work();
    const before = Date.parse((await see("room")).json.sandbox.expiresAt);
    const extended = await post("/v1/sessions/room/extend", { durationMs: 20 * minute });
    expect(Date.parse(extended.json.sandbox.expiresAt)).toBe(before + 20 * minute);
    api.advance(15 * minute);
    await post("/v1/reap", {});
    expect(api.world.sandboxes()).toHaveLength(1);

    const most = await post("/v1/sessions/room/extend", { durationMs: 600 * minute });
    const { createdAt, expiresAt } = most.json.sandbox;
    expect(Date.parse(expiresAt) - Date.parse(createdAt)).toBeLessThanOrEqual(60 * minute + 1000);
  });

  it("is refused without a running sandbox, and for an invalid duration", async () => {
    await put("room");
    expect((await post("/v1/sessions/room/extend", { durationMs: minute })).json.code).toBe(
      "session_not_ready",
    );
    await api.work();
    api.world.lose(api.world.created[0] ?? "");
    expect((await post("/v1/sessions/room/extend", { durationMs: minute })).status).toBe(409);
    expect((await post("/v1/sessions/room/extend", { durationMs: 0 })).status).toBe(400);
  });
});

describe("reset and delete", () => {
  it("are refused while a turn holds the session", async () => {
    await running({ sessionKey: "room" });
    expect((await post("/v1/sessions/room/reset")).json.code).toBe("session_busy");
    expect((await remove("room")).json.code).toBe("session_busy");
    expect(api.world.sandboxes()).toHaveLength(1);
  });

  it("reset starts a new conversation in the same sandbox", async () => {
    const { token } = await running({ sessionKey: "room" });
    await end(token);
    const { status, json } = await post("/v1/sessions/room/reset");
    expect(status).toBe(200);
    expect(json.resetAt).not.toBeNull();
    expect(json.sandbox.name).toBe(api.world.created[0]);
  });

  it("delete removes the sandbox, hides the session, and reuses no sandbox name", async () => {
    const { id, token } = await running({ sessionKey: "room" });
    await end(token);
    expect((await remove("room")).status).toBe(204);
    expect(api.world.sandboxes()).toEqual([]);
    expect((await see("room")).status).toBe(404);
    expect((await remove("room")).status).toBe(404);
    expect((await api.request("GET", "/v1/sessions")).json.items).toEqual([]);

    expect((await continued(id)).status).toBe("running");
    expect((await see("room")).status).toBe(200);
    expect(new Set(api.world.created).size).toBe(2);
  });
});

describe("a turn's sandbox", () => {
  it("is resumed with its files after its time was over", async () => {
    const { id, token } = await running();
    await end(token);
    api.world.stop(api.world.created[0] ?? "");
    expect(await continued(id)).toMatchObject({
      status: "running",
      sandbox: { origin: "resumed", epoch: 1 },
    });
    expect(api.counted).toContain("room_given resumed");
    expect((await get(id)).notices).toEqual([]);
  });

  it("is replaced when it is gone, and the user is told what was lost", async () => {
    const { id, token } = await running();
    await end(token);
    api.world.lose(api.world.created[0] ?? "");
    expect(await continued(id)).toMatchObject({
      sandbox: { origin: "cold", epoch: 2 },
      notices: [{ code: "context_lost", turn: 2 }],
    });
    expect(api.counted).toContain("room_replaced gone");
  });

  it("moves by snapshot near the plan's end and loses nothing", async () => {
    use({ SANDBOX_MAX_LIFE_MS: "3600000", SESSION_IDLE_TIMEOUT_MS: "3600000" });
    const { id, token } = await running({ limits: { maxDurationMs: 600_000 } });
    await end(token);
    api.advance(3_000_000);
    expect(await continued(id)).toMatchObject({ sandbox: { origin: "snapshot", epoch: 2 }, notices: [] });
    expect(api.world.sandboxes()).toHaveLength(1);
    expect(api.counted).toContain("room_replaced max_life");
    const { items } = (await api.request("GET", `/v1/tasks/${id}/events`)).json;
    expect(items.map(({ step }: { step?: string }) => step)).toContain("moving");
  });

  it("is kept while the provider does not answer, and retried with growing pauses", async () => {
    const { id, token } = await running();
    await end(token);
    const { probe } = api.deps.provider;
    api.deps.provider.probe = failing("transient");
    await post(`/v1/tasks/${id}/continue`, { prompt: "more" });
    const delays: number[] = [];
    api.deps.work.send = async (message, delayMs = 0) => {
      api.sent.push(message);
      delays.push(delayMs);
    };
    for (let i = 0; i < 4; i++) {
      await api.work();
      api.advance(20_000);
    }
    expect(api.world.created).toHaveLength(1);
    expect(delays.slice(1).every((ms, i) => ms > (delays[i] ?? 0) / 2)).toBe(true);
    expect(Math.max(...delays)).toBeGreaterThan(2 * (delays[0] ?? 0));
    api.deps.provider.probe = probe;
    await api.work();
    expect((await get(id)).sandbox).toMatchObject({ origin: "reused", epoch: 1 });
  });
});
