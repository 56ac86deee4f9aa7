import { randomUUID } from "node:crypto";
import { Sandbox } from "@vercel/sandbox";
import { localFetch } from "vercel-sandbox-local";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge();
});
afterAll(async () => await concierge[Symbol.asyncDispose]());
afterEach(async () => void (await concierge.control("DELETE", "/faults")));

/** A session that is kept for its next turn, with a file in it. */
async function idle() {
  const { client } = concierge;
  const sessionKey = randomUUID();
  const { id } = await client.start("echo one > kept", { sessionKey });
  const { sandbox, status } = await client.ended(id);
  if (!sandbox) throw new Error(`it ended without a sandbox: ${status}`);
  return { id, name: sandbox.name, sessionKey };
}

/** As if its time were over. */
async function stop(name: string): Promise<void> {
  const common = { token: concierge.sandboxToken, teamId: "local", projectId: "local" };
  const fetch = localFetch(concierge.endpoints.sandbox ?? "");
  const sandbox = await Sandbox.get({ ...common, fetch, name, resume: false });
  await sandbox.currentSession().stop();
  await expect.poll(() => concierge.provider.probe(name)).toEqual({ health: "resumable" });
}

/** Its second turn, to the end. */
async function secondTurn(id: string, prompt = "cat kept 2>/dev/null || echo nothing") {
  const { client } = concierge;
  await client.continue(id, prompt);
  const task = await client.ended(id, 60_000);
  const output = await client.request("GET", `/v1/tasks/${id}/output?turn=2`);
  return { task, steps: await stepsOf(id, 2), output: await output.text() };
}

async function stepsOf(id: string, turn: number): Promise<unknown[]> {
  const events = await concierge.client.events(id);
  return events.filter((event) => event.type === "progress" && event.turn === turn).map(({ step }) => step);
}

const count = (steps: unknown[], step: string) => steps.filter((one) => one === step).length;

/** Look-ups of this one sandbox fail, this many times. */
async function failLookUp(name: string, times: number, effect: Record<string, unknown>): Promise<void> {
  await concierge.control("POST", "/faults", { route: "getSandbox", path: name, count: times, effect });
}

/** The SDK itself tries three times. */
const sdkTries = 3;

describe("a sandbox that is gone when its next turn starts", () => {
  it("is replaced once by a cold one, and the user is told what was lost", async () => {
    const { id, name } = await idle();
    await concierge.provider.remove(name);
    const { task, steps, output } = await secondTurn(id);
    expect(task).toMatchObject({ status: "succeeded", sandbox: { origin: "cold", epoch: 2 } });
    expect(task.notices).toMatchObject([{ code: "context_lost", turn: 2 }]);
    expect(output).toBe("nothing\n");
    expect(count(steps, "creating")).toBe(1);
    expect(count(steps, "retrying")).toBe(0);
  });

  it("is kept from then on: the third turn reuses it without a notice", async () => {
    const { id, name } = await idle();
    await concierge.provider.remove(name);
    await secondTurn(id, "echo two > kept");
    await concierge.client.continue(id, "cat kept");
    const task = await concierge.client.ended(id);
    expect(task).toMatchObject({ status: "succeeded", sandbox: { origin: "reused", epoch: 2 } });
    expect(task.notices).toHaveLength(1);
    expect(String(await concierge.client.output(id))).toBe("two\n");
  });
});

describe("a sandbox that expired", () => {
  it("is resumed with its files and a progress event", async () => {
    const { id, name } = await idle();
    await stop(name);
    const { task, steps, output } = await secondTurn(id);
    expect(task).toMatchObject({ status: "succeeded", sandbox: { name, origin: "resumed", epoch: 1 } });
    expect(task.notices).toEqual([]);
    expect(output).toBe("one\n");
    expect(steps).toContain("resuming");
    expect(steps).not.toContain("creating");
  });
});

describe("a command in a session whose sandbox", () => {
  const count = "cat kept 2>/dev/null || echo nothing; echo x >> count; wc -l < count";
  const body = { command: "sh", args: ["-c", count] };
  const fail = (name: string) => failLookUp(name, 100, { type: "status", status: 500 });

  it.each([
    ["is gone runs in another, once", (name: string) => concierge.provider.remove(name), 2, "nothing\n1\n"],
    ["has stopped runs in it with its files, once", stop, 1, "one\n2\n"],
    ["cannot be looked up for a moment runs in it", fail, 1, "one\n2\n"],
  ])("%s", async (_how, happens, epoch, stdout) => {
    const { client } = concierge;
    const { name, sessionKey } = await idle();
    await client.json("POST", `/v1/sessions/${sessionKey}/exec`, body);
    await happens(name);
    const answer = await client.json("POST", `/v1/sessions/${sessionKey}/exec`, body);
    expect(answer).toMatchObject({ exitCode: 0, stdout, stderr: "" });
    expect(await client.json("GET", `/v1/sessions/${sessionKey}`)).toMatchObject({ epoch });
  });
});

describe("a provider that does not answer about a sandbox", () => {
  it.each([
    ["with errors for a while", 2 * sdkTries, { type: "status", status: 500 }, 2],
    ["because it is busy", sdkTries, { type: "status", status: 429, headers: { "retry-after": "1" } }, 1],
    ["because it never answers", 1, { type: "hang" }, 1],
  ])(
    "%s: the turn waits, reports it, and continues in the same sandbox",
    async (_why, times, effect, retries) => {
      const { id, name } = await idle();
      await failLookUp(name, times, effect);
      const { task, steps, output } = await secondTurn(id);
      expect(task).toMatchObject({ status: "succeeded", sandbox: { name, origin: "reused", epoch: 1 } });
      expect(task.notices).toEqual([]);
      expect(output).toBe("one\n");
      expect(count(steps, "retrying")).toBe(retries);
      expect(steps).not.toContain("creating");
    },
    60_000,
  );

  it("makes the session's health unknown, and the session keeps everything", async () => {
    const { client } = concierge;
    const { id } = await client.start("true", { sessionKey: "unknown" });
    const { sandbox } = await client.ended(id);
    await failLookUp(sandbox?.name ?? "", sdkTries, { type: "status", status: 500 });
    expect(await client.json("GET", "/v1/sessions/unknown?probe=true")).toMatchObject({
      health: "unknown",
      isReady: false,
      sandbox: { name: sandbox?.name, state: "ready" },
    });
    expect(await client.json("GET", "/v1/sessions/unknown?probe=true")).toMatchObject({
      health: "healthy",
      isReady: true,
    });
  });
});

describe("a sandbox that is lost between probe and launch", () => {
  it("is kept if a look-up does not confirm the loss", async () => {
    const { id, name } = await idle();
    const gone = { type: "status", status: 410, code: "sandbox_stopped" };
    await concierge.control("POST", "/faults", { route: "writeFiles", effect: gone });
    const { task, steps, output } = await secondTurn(id);
    expect(task).toMatchObject({
      status: "succeeded",
      turn: 2,
      error: null,
      sandbox: { origin: "reused", name },
    });
    expect(task.notices).toEqual([]);
    expect(output).not.toBe("nothing\n");
    expect(count(steps, "creating")).toBe(0);
  });
});

describe("a provider that creates no sandboxes", () => {
  it("does not block the api; the task waits, reports it, and runs later", async () => {
    const { client, control } = concierge;
    const away = { type: "status", status: 503 };
    await control("POST", "/faults", { route: "createSandbox", count: 1000, effect: away });
    const { id } = await client.start("echo at last");
    await expect
      .poll(async () => count(await stepsOf(id, 1), "retrying"), { timeout: 30_000 })
      .toBeGreaterThanOrEqual(2);
    expect((await client.request("GET", "/healthz")).status).toBe(200);
    expect(await client.get(id)).toMatchObject({ status: "provisioning", error: null });

    await control("DELETE", "/faults");
    const task = await client.ended(id, 60_000);
    expect(task).toMatchObject({ status: "succeeded", sandbox: { origin: "cold" }, notices: [] });
    expect(String(await client.output(id))).toBe("at last\n");
  }, 90_000);

  it("for a moment is reported as such, not as a dead worker", async () => {
    const { client, control } = concierge;
    const away = { type: "status", status: 503 };
    await control("POST", "/faults", { route: "createSandbox", count: sdkTries, effect: away });
    const { id } = await client.start("true");
    const task = await client.ended(id, 60_000);
    expect(task.status).toBe("succeeded");
    expect(count(await stepsOf(id, 1), "retrying")).toBe(1);
    expect(JSON.stringify(task.phases)).not.toContain("died");
  });

  it("for a moment during a replacement: the user is told what was lost", async () => {
    const { id, name } = await idle();
    await concierge.provider.remove(name);
    const away = { type: "status", status: 503 };
    await concierge.control("POST", "/faults", { route: "createSandbox", count: sdkTries, effect: away });
    const { task, steps } = await secondTurn(id);
    expect(task).toMatchObject({ status: "succeeded", sandbox: { origin: "cold" } });
    expect(count(steps, "retrying")).toBe(1);
    expect(task.notices).toMatchObject([{ code: "context_lost", turn: 2 }]);
  }, 60_000);
});
