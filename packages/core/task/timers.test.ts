import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, failing, push, repo } from "../../../test/testing/driver.ts";

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

describe("the deadline", () => {
  it("ends the turn as timed_out with its processes, enforced by timer or reaper", async () => {
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

  it("closes the push: none is granted afterwards", async () => {
    const { id, token } = await running({ repo, limits: { maxDurationMs: 60_000 } });
    api.advance(60_000);
    expect((await say(token, "finalize", push)).json).toEqual({ action: "stop" });
    await api.fire("deadline");
    expect((await get(id)).status).toBe("timed_out");
  });

  it("is proven by a timer if the runner reported it first", async () => {
    const { id, token, process } = await running();
    expect((await end(token, { reason: "deadline", exitCode: null })).json).toEqual({ action: "done" });
    expect((await get(id)).status).toBe("stopping");
    await api.fire("terminate");
    expect((await get(id)).status).toBe("timed_out");
    expect(process.alive).toBe(false);
  });
});

describe("silence", () => {
  it("is checked once, then ends as inactivity_timeout", async () => {
    const { id, process } = await running({ limits: { inactivityMs: 5000 } });
    api.advance(5000);
    await api.fire("inactivity");
    expect(await get(id)).toMatchObject({ status: "failed", error: { code: "inactivity_timeout" } });
    expect(process.alive).toBe(false);
    expect(api.counted).toContain("turn_ended inactivity_timeout");
  });

  it.each([
    [
      "output that could not be delivered",
      { at: undefined, lastOutputAt: undefined, undelivered: true, activity: "none" },
    ],
    [
      "an agent that waits for its model",
      { at: undefined, lastOutputAt: undefined, undelivered: false, activity: "model" },
    ],
    [
      "an agent that waits for a tool",
      { at: undefined, lastOutputAt: undefined, undelivered: false, activity: "tool" },
    ],
  ] as const)("is not %s", async (_what, state) => {
    const { id, process } = await running({ limits: { inactivityMs: 5000 } });
    process.state = state;
    api.advance(5000);
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
    expect(api.armed).toContainEqual({ kind: "inactivity", taskId: id, turn: 1, delayMs: 5000 });
  });

  it("is not assumed after a beat that reports work, or while the provider does not answer", async () => {
    const { id, token } = await running({ limits: { inactivityMs: 5000 } });
    api.advance(4000);
    await say(token, "beat", { activity: "tool" });
    api.advance(2000);
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
    api.advance(4000);
    api.deps.provider.probe = failing("transient");
    await api.fire("inactivity");
    expect((await get(id)).status).toBe("running");
  });
});

describe("the push", () => {
  it("is granted by one write, and its outcome becomes the result", async () => {
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
    api.refs.set(`${repo.url} work`, push.commit);
    expect((await end(token, { pushed: true })).json).toEqual({ action: "done" });
    expect(await get(id)).toMatchObject({
      status: "succeeded",
      result: { commit: push.commit, branch: "work", pushed: true, text: "done", exitCode: 0 },
    });
    expect(JSON.stringify(await api.deps.store.getTask(id))).not.toContain("sealed");
  });

  it("is not believed to have landed if the remote does not have the commit", async () => {
    const { id, token, process } = await running({ repo });
    await say(token, "finalize", push);
    expect((await end(token, { pushed: true })).json).toEqual({ action: "done" });
    expect((await get(id)).status).toBe("finalizing");
    api.advance(60_000);
    await api.fire("finalize");
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "finalize_timeout" },
      result: { pushed: false },
    });
    expect(process.alive).toBe(false);
  });

  it("ends as push_failed if the remote rejected it", async () => {
    const { id, token } = await running({ repo });
    await say(token, "finalize", push);
    await end(token, { pushed: false });
    expect(await get(id)).toMatchObject({
      status: "failed",
      error: { code: "push_failed" },
      result: { pushed: false },
    });
  });

  it("is looked up after its runner is dead if nobody reported it", async () => {
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

  it("is not granted after a stop, whichever asked first", async () => {
    const { id, token } = await running({ repo });
    await stop(id);
    expect((await say(token, "finalize", push)).json).toEqual({ action: "stop" });
  });

  it("gives the clone credential only to the first caller, so the agent gets nothing", async () => {
    const { token } = await running({ repo });
    const nonce = "first-asker-nonce-1";
    expect((await say(token, "clone", { nonce })).json.action).toBe("go");
    expect((await say(token, "clone", { nonce })).json.action).toBe("go");
    expect((await say(token, "clone", { nonce: "another-asker-nonce" })).json).toEqual({ action: "stop" });
  });

  it("is not granted to a task without a repo", async () => {
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
  ])("is refused for %s if private hosts are not allowed", async (url) => {
    api.deps.config = { ...api.deps.config, allowPrivateHosts: false };
    const { status, json } = await post("/v1/tasks", { prompt: "x", repo: { url } });
    expect([status, json.issues?.[0]?.path]).toEqual([400, "repo.url"]);
  });
});
