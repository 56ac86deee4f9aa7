import { randomUUID } from "node:crypto";
import { Sandbox } from "@vercel/sandbox";
import { describe, expect } from "vitest";
import { eventually, localTest, openService, refusedWith, sh } from "./testing/api.ts";

const controlTest = localTest("it needs the control routes");

describe("faults", () => {
  controlTest("a status fault applies `count` times and the SDK retries", async () => {
    await using service = await openService();
    await service.fault({ route: "createSandbox", count: 2, effect: { type: "status", status: 503 } });
    const sandbox = await service.create({ persistent: false });
    expect(sandbox.status).toBe("running");
    expect((await service.stats()).routes.createSandbox).toEqual({
      requests: 3,
      statuses: { 200: 1, 503: 2 },
    });
  });

  controlTest("a status fault has its code and headers and does nothing else", async () => {
    await using service = await openService();
    const headers = { "retry-after": "21" };
    await service.fault({
      method: "POST",
      path: "/sandboxes$",
      effect: { type: "status", status: 429, code: "slow_down", headers },
    });
    // The SDK waits at most 20 seconds.
    expect(await refusedWith(service.create())).toEqual({ status: 429, code: "slow_down" });
    expect((await service.stats()).running).toBe(0);
  });

  controlTest("a dropped request has no effect", async () => {
    await using service = await openService();
    await service.fault({ route: "createSandbox", count: 3, effect: { type: "drop" } });
    await expect(service.create({ name: "dropped" })).rejects.toThrow();
    expect((await Sandbox.list(service.credentials)).sandboxes).toEqual([]);
  });

  controlTest(
    "a create whose response is lost created the sandbox, and the retry reports that it exists",
    async () => {
      await using service = await openService();
      await service.fault({ route: "createSandbox", effect: { type: "commitLate", drop: true } });
      expect(await refusedWith(service.create({ name: "lost" }))).toEqual({
        status: 400,
        code: "bad_request",
      });
      const found = await Sandbox.get({ ...service.credentials, name: "lost" });
      expect(found.status).toBe("running");
    },
  );

  controlTest(
    "a command whose response is lost has started, and the SDK's retry starts it again",
    async () => {
      await using service = await openService();
      const sandbox = await service.create({ persistent: false });
      await service.fault({ route: "runCommand", effect: { type: "commitLate", drop: true } });
      const command = await sandbox.runCommand({
        cmd: "sh",
        args: ["-c", "echo ran >> runs"],
        detached: true,
      });
      await command.wait();
      expect(await eventually(async () => (await sh(sandbox, "cat runs")) === "ran\nran")).toBe(true);
    },
  );

  controlTest(
    "a command whose response is late runs while its caller waits or after it gave up",
    async () => {
      await using service = await openService();
      const sandbox = await service.create({ persistent: false });
      await service.fault({ route: "runCommand", effect: { type: "commitLate", delayMs: 60_000 } });
      const late = sandbox.currentSession().runCommand({
        cmd: "touch",
        args: ["started"],
        detached: true,
        signal: AbortSignal.timeout(500),
      });
      await expect(late).rejects.toThrow();
      await eventually(async () => (await sandbox.readFileToBuffer({ path: "started" })) !== null);
    },
  );

  controlTest("a fault for a sandbox's name affects its create and its sessions only", async () => {
    await using service = await openService();
    const before = await service.create({ name: "faulty-1", persistent: false });
    await service.fault({ sandbox: "^faulty-", count: 100, effect: { type: "status", status: 418 } });
    const other = await service.create({ name: "other", persistent: false });
    expect(await sh(other, "echo other")).toBe("other");
    expect(await refusedWith(service.create({ name: "faulty-2" }))).toMatchObject({ status: 418 });
    expect(await refusedWith(before.runCommand("true"))).toMatchObject({ status: 418 });
    const named = { ...service.credentials, name: "faulty-1" };
    expect(await refusedWith(Sandbox.get(named))).toMatchObject({ status: 418 });
  });

  controlTest("hanging requests fail when the faults are cleared", async () => {
    await using service = await openService();
    await service.fault({ route: "createSandbox", effect: { type: "hang" } });
    const created = service.create({ name: "late", persistent: false });
    await eventually(async () => (await service.stats()).routes.createSandbox?.requests === 1);
    await service.clearFaults();
    // The SDK retries.
    expect((await created).name).toBe("late");
  });

  controlTest("a hang never answers and a delay answers late", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await service.fault({ route: "stopSession", effect: { type: "hang" } });
    await expect(sandbox.stop({ signal: AbortSignal.timeout(200) })).rejects.toThrow();
    expect((await Sandbox.get({ ...service.credentials, name: sandbox.name })).status).toBe("running");
    await service.fault({ route: "stopSession", effect: { type: "delay", delayMs: 150 } });
    const before = performance.now();
    await sandbox.stop();
    expect(performance.now() - before).toBeGreaterThan(140);
  });

  controlTest("a fault with a token affects only callers with that token", async () => {
    await using service = await openService();
    await service.fault({ token: "unlucky", count: 100, effect: { type: "status", status: 400 } });
    const unlucky = Sandbox.list({ ...service.credentials, token: "unlucky" });
    expect((await refusedWith(unlucky)).status).toBe(400);
    expect((await Sandbox.list(service.credentials)).sandboxes).toEqual([]);
  });

  controlTest("a request whose response is cut still took effect", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const session = sandbox.currentSession();
    const append = { cmd: "sh", args: ["-c", "echo ran >> runs"] };
    await service.fault({ route: "runCommand", effect: { type: "cut", chunks: 1 } });
    await expect(session.runCommand(append)).rejects.toMatchObject({ code: "stream_ended_early" });
    await service.fault({ route: "runCommand", effect: { type: "cut", how: "break", chunks: 1 } });
    await expect(session.runCommand(append)).rejects.toThrow("terminated");
    await service.fault({ route: "runCommand", effect: { type: "cut" } });
    await expect(session.runCommand({ ...append, detached: true })).rejects.toThrow("JSON");
    await service.fault({ route: "runCommand", effect: { type: "cut", how: "break" } });
    await expect(session.runCommand({ ...append, detached: true })).rejects.toThrow("response text");
    expect(
      await eventually(async () => (await sh(sandbox, "cat runs")) === Array(4).fill("ran").join("\n")),
    ).toBe(true);
  });

  controlTest("an error line ends a stream with its code", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await service.fault({
      route: "runCommand",
      effect: { type: "errorLine", chunks: 1, code: "internal_error" },
    });
    await expect(sandbox.currentSession().runCommand("true")).rejects.toMatchObject({
      code: "internal_error",
    });
  });

  controlTest("a status fault can answer with an HTML page", async () => {
    await using service = await openService();
    await service.fault({ effect: { type: "status", status: 404, page: "<html>" } });
    expect(await refusedWith(Sandbox.list(service.credentials))).toEqual({ status: 404, code: undefined });
  });

  controlTest("faults can be cleared", async () => {
    await using service = await openService();
    await service.fault({ count: 100, effect: { type: "drop" } });
    const cleared = await control(service.url, "control", "DELETE", "/faults");
    expect(cleared.status).toBe(200);
    expect((await service.create({ persistent: false })).status).toBe("running");
  });

  controlTest("the control routes need their own token and are disabled without one", async () => {
    await using service = await openService();
    for (const token of ["", "token", "controlled"]) {
      expect((await control(service.url, token, "GET", "/stats")).status).toBe(403);
    }
    expect((await control(service.url, "control", "GET", "/nothing")).status).toBe(404);
    await using without = await openService({ controlToken: undefined });
    expect((await control(without.url, "control", "GET", "/stats")).status).toBe(403);
    expect((await control(without.url, "token", "GET", "/stats")).status).toBe(404);
  });

  controlTest("an invalid fault is a 400", async () => {
    await using service = await openService();
    const response = await control(service.url, "control", "POST", "/faults", {
      effect: { type: "explode" },
    });
    expect(response.status).toBe(400);
  });
});

describe("latencies", () => {
  controlTest("creating and stopping take the configured time", async () => {
    await using service = await openService({ latency: { createMs: 300 } });
    const before = performance.now();
    const sandbox = await service.create({ persistent: false });
    expect(performance.now() - before).toBeGreaterThan(290);
    await service.latency({ stopMs: 300 });
    const stopping = performance.now();
    await sandbox.stop();
    expect(performance.now() - stopping).toBeGreaterThan(290);
  });

  controlTest("an install takes at least the configured time and a kill ends it", async () => {
    await using service = await openService({ latency: { installMs: 60_000 } });
    const sandbox = await service.create({ persistent: false });
    await sandbox.writeFiles([{ path: "/tmp/bin/npm", content: "#!/bin/sh\ntrue", mode: 0o755 }]);
    const npm = { cmd: "npm", env: { PATH: "/tmp/bin:/usr/bin:/bin" } };
    expect((await sandbox.runCommand({ ...npm, args: ["--version"] })).exitCode).toBe(0);
    const install = await sandbox.runCommand({ ...npm, args: ["install"], detached: true });
    await service.latency({ installMs: 200 });
    const before = performance.now();
    expect((await sandbox.runCommand({ ...npm, args: ["ci"] })).exitCode).toBe(0);
    expect(performance.now() - before).toBeGreaterThan(190);
    expect((await sandbox.getCommand(install.cmdId)).exitCode).toBeNull();
    await install.kill("SIGKILL");
    expect((await install.wait()).exitCode).toBe(137);
  });
});

describe("limits", () => {
  controlTest("one sandbox over the limit is a 429 with Retry-After until another ends", async () => {
    await using service = await openService({ limits: { maxSandboxes: 2, retryAfterSeconds: 30 } });
    const first = await service.create({ persistent: false });
    await service.create({ persistent: false });
    const third = service.create({ persistent: false });
    const error = (await third.catch((reason: unknown) => reason)) as { response: Response };
    expect(error.response.status).toBe(429);
    expect(error.response.headers.get("retry-after")).toBe("30");
    await first.stop();
    expect((await service.create({ persistent: false })).status).toBe("running");
  });

  controlTest("the SDK waits for a short Retry-After and gets its sandbox", async () => {
    await using service = await openService({ limits: { maxSandboxes: 1, retryAfterSeconds: 1 } });
    const first = await service.create({ persistent: false });
    const second = service.create({ persistent: false });
    await eventually(async () => ((await service.stats()).routes.createSandbox?.requests ?? 0) >= 2);
    await first.stop();
    expect((await second).status).toBe("running");
  });

  controlTest("a resume counts towards the limit", async () => {
    await using service = await openService({ limits: { maxSandboxes: 1, retryAfterSeconds: 30 } });
    const first = await service.create();
    await first.stop();
    await service.create({ persistent: false });
    expect((await refusedWith(first.runCommand("true"))).status).toBe(429);
  });
});

describe("tokens", () => {
  controlTest("a call with a missing or wrong token is a 403", async () => {
    await using service = await openService({ tokens: ["right"] });
    const wrong = Sandbox.create({ ...service.credentials, token: `wrong-${randomUUID()}` });
    expect((await refusedWith(wrong)).status).toBe(403);
    expect((await fetch(`${service.url}/api/v2/sandboxes`)).status).toBe(403);
    const right = await Sandbox.create({ ...service.credentials, token: "right", persistent: false });
    expect(right.status).toBe("running");
  });

  controlTest("an unknown path is a 404", async () => {
    await using service = await openService();
    const response = await fetch(`${service.url}/api/v9/nothing`, {
      headers: { authorization: "Bearer token" },
    });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "not_found" } });
  });
});

function control(
  url: string,
  token: string,
  method: string,
  route: string,
  body?: object,
): Promise<Response> {
  return fetch(`${url}/_control${route}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
}
