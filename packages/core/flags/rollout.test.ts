import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing } from "../../../test/testing/driver.ts";

let api: Driver["api"];
let end: Driver["end"];
let get: Driver["get"];
let post: Driver["post"];
let running: Driver["running"];
let say: Driver["say"];
let stop: Driver["stop"];
beforeEach(() => {
  ({ api, end, get, post, running, say, stop } = createDriver());
});

describe("each flag switches exactly its mechanism", () => {
  const put = async (flags: Record<string, unknown>) => {
    const answer = await api.request("PUT", "/v1/flags", { body: flags });
    api.advance(10_000);
    return answer;
  };

  it("flags can be read and changed, and unknown ones are rejected", async () => {
    const { json } = await api.request("GET", "/v1/flags");
    expect(Object.values(json)).toEqual(Array(5).fill("on"));
    expect((await put({ ENABLE_HEALTH_PROBE: "25%" })).json).toEqual({ ...json, ENABLE_HEALTH_PROBE: "25%" });
    for (const said of [false, "false", "off"]) {
      expect((await put({ ENABLE_HEALTH_PROBE: said })).json.ENABLE_HEALTH_PROBE).toBe("off");
    }
    expect((await put({ ENABLE_HEALTH_PROBE: true })).json.ENABLE_HEALTH_PROBE).toBe("on");
    for (const said of ["101%", "maybe", 1, null]) {
      expect((await put({ ENABLE_HEALTH_PROBE: said })).status).toBe(400);
    }
    expect((await put({ ENABLE_TELEPATHY: "on" })).status).toBe(400);
    const key = await api.keyFor("bob");
    expect((await api.request("GET", "/v1/flags", { key })).status).toBe(403);
    expect((await api.request("PUT", "/v1/flags", { key, body: {} })).status).toBe(403);
  });

  it("ENABLE_DB_BACKED_STOP off: a stop reaches only the runner, with its next request", async () => {
    await put({ ENABLE_DB_BACKED_STOP: "off" });
    const { id, process, token } = await running();
    expect((await stop(id)).status).toBe(202);
    expect(process.alive).toBe(true);
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "stop" });
    await api.fire("terminate");
    expect((await get(id)).status).toBe("stopped");
  });

  it("ENABLE_CANCELLATION_CHECKS off: the runner is not told, but the kill still reaches it", async () => {
    await put({ ENABLE_CANCELLATION_CHECKS: "off" });
    const { id, process, token } = await running();
    const { sweep, remove } = api.deps.provider;
    Object.assign(api.deps.provider, { sweep: failing("transient"), remove: failing("transient") });
    await stop(id);
    expect((await say(token, "beat", { activity: "none" })).json).toEqual({ action: "continue" });
    Object.assign(api.deps.provider, { sweep, remove });
    await api.fire("terminate");
    expect(process.alive).toBe(false);
  });

  it("ENABLE_HEALTH_PROBE off: a sandbox is reused without a probe", async () => {
    for (const [value, probes] of [
      ["on", 1],
      ["off", 0],
    ] as const) {
      await put({ ENABLE_HEALTH_PROBE: value });
      const { id, token } = await running({ sessionKey: value });
      await end(token);
      let asked = 0;
      const { probe } = api.deps.provider;
      api.deps.provider.probe = async (name) => {
        asked += 1;
        return await probe(name);
      };
      await post(`/v1/tasks/${id}/continue`, { prompt: "x" });
      await api.work();
      api.deps.provider.probe = probe;
      expect(asked).toBe(probes);
      expect((await get(id)).sandbox.origin).toBe("reused");
    }
  });

  it("ENABLE_INACTIVITY_TIMEOUT off: silence does not end a turn", async () => {
    await put({ ENABLE_INACTIVITY_TIMEOUT: "off" });
    const { id, process } = await running({ limits: { maxDurationMs: 90_000, inactivityMs: 5000 } });
    expect(JSON.parse(process.env.CONCIERGE_TURN ?? "").inactivityMs).toBeGreaterThan(50_000);
    api.advance(50_000);
    await api.fire("inactivity");
    await post("/v1/reap", {});
    expect((await get(id)).status).toBe("running");
  });

  it("ENABLE_AUTHORITATIVE_TIMEOUT off: only the runner enforces the deadline", async () => {
    await put({ ENABLE_AUTHORITATIVE_TIMEOUT: "off" });
    const { id } = await running({ limits: { maxDurationMs: 60_000, inactivityMs: 3_600_000 } });
    api.advance(100_000);
    await api.fire("deadline");
    await post("/v1/reap", {});
    expect((await get(id)).status).toBe("running");
  });
});
