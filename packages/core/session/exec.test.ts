import { ProviderError } from "@concierge/core";
import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../../../test/testing/api.ts";

let api: TestApi;
beforeEach(() => {
  api = createTestApi();
});

const put = (key: string) => api.request("PUT", `/v1/sessions/${key}`);
const post = (path: string, body?: unknown) =>
  api.request("POST", path, { ...(body !== undefined && { body }) });

describe("POST /v1/sessions/:key/exec", () => {
  const execThat = (what: () => Promise<number | null>) => {
    api.deps.provider.exec = async () => ({
      exitCode: await what(),
      stdout: "",
      stderr: "",
      truncated: false,
    });
  };

  it("reports how long the command took", async () => {
    await put("room");
    await api.work();
    execThat(async () => {
      api.advance(1_234);
      return 0;
    });
    const { json } = await post("/v1/sessions/room/exec", { command: "true" });
    expect([json.durationMs, json.exitCode]).toEqual([1_234, 0]);
  });

  it.each([
    ["by a stop of the session's turn says so", 137, true, true],
    ["by a stop that let it clean up says so", 143, true, true],
    ["by a signal of its own does not", 137, false, undefined],
    ["by itself while the turn was stopped does not", 3, true, undefined],
  ])("that was ended %s", async (_what, exitCode, isStopped, stopped) => {
    const { json: task } = await post("/v1/tasks", { prompt: "sleep 600", sessionKey: "room" });
    await api.work();
    execThat(async () => {
      api.advance(100);
      if (isStopped) await post(`/v1/tasks/${task.id}/stop`);
      return exitCode;
    });
    const { status, json } = await post("/v1/sessions/room/exec", { command: "sleep", args: ["600"] });
    expect([status, json.exitCode, json.stopped]).toEqual([200, exitCode, stopped]);
  });

  it("runs a command in the session's sandbox with its arguments and variables", async () => {
    await put("room");
    await api.work();
    const ran: unknown[] = [];
    api.deps.provider.exec = async (sandbox, execution) => {
      ran.push(sandbox.name, execution);
      return { exitCode: 3, stdout: "out", stderr: "err", truncated: false };
    };
    const answer = await post("/v1/sessions/room/exec", {
      command: "ls",
      args: ["-l"],
      env: { A: "b" },
      cwd: "/",
    });
    expect(answer).toMatchObject({
      status: 200,
      json: { exitCode: 3, stdout: "out", stderr: "err", timedOut: false, durationMs: expect.any(Number) },
    });
    expect(ran).toMatchObject([api.world.created[0], { cmd: "ls", args: ["-l"], env: { A: "b" }, cwd: "/" }]);
  });

  it("creates a sandbox if there is none, and reports a provider that does not answer", async () => {
    await put("room");
    expect((await post("/v1/sessions/room/exec", { command: "true" })).status).toBe(200);
    expect(api.world.created).toHaveLength(1);
    api.deps.provider.exec = async () => {
      throw new ProviderError("throttled", "busy", { retryAfterMs: 7000 });
    };
    const answer = await post("/v1/sessions/room/exec", { command: "true" });
    expect(answer.json.code).toBe("provider_unavailable");
    expect(answer.headers.get("retry-after")).toBe("7");
  });

  it.each([
    [{}],
    [{ command: "" }],
    [{ command: "ls", args: "x" }],
    [{ command: "ls", timeoutMs: 0 }],
    [{ command: "ls", env: { "a b": "c" } }],
    [{ command: "ls", more: 1 }],
  ])("refuses %j", async (body) => {
    await put("room");
    expect((await post("/v1/sessions/room/exec", body)).json.code).toBe("invalid_request");
  });
});
