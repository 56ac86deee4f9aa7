import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** Only the reaper's first pass comes by itself; the test requests the others. */
const rarely = { reapEveryMs: 3_600_000 };
const waits = "until [ -e /tmp/go ]; do sleep 0.1; done; echo went";

interface Stats {
  routes: Record<string, { requests: number }>;
  running: number;
}

async function stats({ control }: Concierge): Promise<Stats> {
  return (await (await control("GET", "/stats")).json()) as Stats;
}

const creates = async (concierge: Concierge) => (await stats(concierge)).routes.createSandbox?.requests ?? 0;

async function stepsOf({ client }: Concierge, id: string): Promise<unknown[]> {
  return (await client.events(id)).flatMap(({ type, step }) => (type === "progress" ? [step] : []));
}

const exec = async ({ client }: Concierge, key: string, command: string, over: object = {}) =>
  await client.json("POST", `/v1/sessions/${key}/exec`, { command: "sh", args: ["-c", command], ...over });

const pool = async ({ client }: Concierge) => await client.json("GET", "/v1/pool");

/** Runs a task to its end, and returns where it ran and its output. */
async function run({ client }: Concierge, prompt: string, over: Record<string, unknown> = {}) {
  const { id } = await client.start(prompt, over);
  const task = await client.ended(id, 60_000);
  return { ...task, output: String(await client.output(id)) };
}

describe("the base snapshot", () => {
  it("is built and used; sandboxes are created without it when it is gone, until it is rebuilt", async () => {
    await using concierge = await startConcierge({
      ...rarely,
      env: { SANDBOX_SETUP: "echo built > /vercel/sandbox/.base" },
    });
    const { client, provider } = concierge;
    const base = async () => await client.json("GET", "/v1/snapshot");
    const ready = async (but?: unknown) => {
      await expect
        .poll(base, { timeout: 30_000 })
        .toMatchObject({ state: "ready", snapshotId: expect.not.stringMatching(`^${but}$`) });
      return await base();
    };
    const first = await ready();
    expect((await client.request("POST", "/v1/snapshot")).status).toBe(202);
    const second = await ready(first.snapshotId);
    expect(second).toMatchObject({ runtime: "node24", detail: null });

    const used = await run(concierge, "cat .base");
    expect(used).toMatchObject({ sandbox: { origin: "snapshot" }, output: "built\n" });
    expect(await stepsOf(concierge, used.id)).not.toContain("installing");

    await provider.deleteSnapshot(String(second.snapshotId));
    const cold = await run(concierge, "cat .base");
    expect(cold).toMatchObject({ sandbox: { origin: "cold", epoch: 1 }, output: "built\n" });
    expect(await stepsOf(concierge, cold.id)).toContain("installing");

    await client.json("POST", "/v1/reap", {});
    await ready(second.snapshotId);
    expect(await run(concierge, "cat .base")).toMatchObject({
      sandbox: { origin: "snapshot" },
      output: "built\n",
    });
    expect(await pool(concierge)).toMatchObject({ total: 3, idle: 3 });
  }, 120_000);

  it("with a failing setup is not retried in a loop, and neither is the task", async () => {
    await using concierge = await startConcierge({
      ...rarely,
      env: { SANDBOX_SETUP: "echo no such package; exit 3" },
    });
    const { client } = concierge;
    const failed = { state: "failed", detail: expect.stringContaining("no such package") };
    await expect.poll(() => client.json("GET", "/v1/snapshot"), { timeout: 30_000 }).toMatchObject(failed);
    const before = await creates(concierge);
    const task = await run(concierge, "true");
    expect(task).toMatchObject({ status: "failed", error: { code: "provision_failed" } });
    expect(task.error?.detail).toMatch(/exited with 3.*no such package/);
    await client.json("POST", "/v1/reap", {});
    expect(await client.json("GET", "/v1/snapshot")).toMatchObject(failed);
    expect(await creates(concierge)).toBe(before + 1);
    expect(await stats(concierge)).toMatchObject({ running: 0 });
    expect(await pool(concierge)).toMatchObject({ total: 0 });
  }, 60_000);
});

describe("a session", () => {
  let concierge: Concierge;
  beforeAll(async () => {
    concierge = await startConcierge(rarely);
    await concierge.control("PUT", "/latency", { createMs: 700 });
  });
  afterAll(async () => await concierge[Symbol.asyncDispose]());
  const put = async (key: string) => await concierge.client.request("PUT", `/v1/sessions/${key}`);
  const readied = async (key: string) =>
    await expect.poll(async () => (await put(key)).status, { timeout: 20_000 }).toBe(200);

  it("is prepared ahead, its first task starts in it, and the pool counts it at each stage", async () => {
    expect(await pool(concierge)).toMatchObject({ total: 0, ready: 0, creating: 0, max: 100 });
    expect((await put("ahead")).status).toBe(202);
    await expect
      .poll(() => pool(concierge), { timeout: 10_000 })
      .toMatchObject({ total: 1, ready: 0, creating: 1 });
    await readied("ahead");
    await expect
      .poll(() => pool(concierge), { timeout: 10_000 })
      .toMatchObject({ total: 1, ready: 1, idle: 1, leased: 0, creating: 0 });

    const { id } = await concierge.client.start(waits, { sessionKey: "ahead" });
    await concierge.client.until(id, ({ status }) => status === "running");
    expect(await pool(concierge)).toMatchObject({ total: 1, ready: 1, idle: 0, leased: 1 });
    await exec(concierge, "ahead", "touch /tmp/go");
    expect(await concierge.client.ended(id)).toMatchObject({ sandbox: { origin: "reused", epoch: 1 } });
    expect(await pool(concierge)).toMatchObject({ total: 1, ready: 1, idle: 1, leased: 0 });
  });

  it("being prepared is awaited by its first task: one sandbox", async () => {
    const before = await creates(concierge);
    expect((await put("soon")).status).toBe(202);
    const task = await run(concierge, "echo here", { sessionKey: "soon" });
    expect(task).toMatchObject({ status: "succeeded", output: "here\n", sandbox: { epoch: 1 } });
    expect(await creates(concierge)).toBe(before + 1);
  });

  it("runs commands beside its turn, with output, exit code and timeout", async () => {
    const { client } = concierge;
    const { id } = await client.start(`echo from the turn > shared; ${waits}`, { sessionKey: "exec" });
    await client.until(id, ({ status }) => status === "running");
    await expect
      .poll(async () => await exec(concierge, "exec", "cat shared; echo oops >&2; exit 3"))
      .toMatchObject({ exitCode: 3, stdout: "from the turn\n", timedOut: false, truncated: false });
    const late = await exec(concierge, "exec", "echo begun; sleep 1000", { timeoutMs: 500 });
    expect(late).toMatchObject({ exitCode: null, stdout: "begun\n", timedOut: true });
    const told = await exec(concierge, "exec", 'echo "$A in $PWD" >&2', { env: { A: "b" }, cwd: "/tmp" });
    expect(told).toMatchObject({ exitCode: 0, stderr: "b in /tmp\n" });
    expect((await client.get(id)).status).toBe("running");
    await exec(concierge, "exec", "touch /tmp/go");
    expect(await client.ended(id)).toMatchObject({ status: "succeeded", result: { text: "went\n" } });
  });

  it("cannot be deleted during a turn; afterwards it is gone, also at the provider", async () => {
    const { client, provider } = concierge;
    const { id } = await client.start(waits, { sessionKey: "left" });
    const { sandbox } = await client.until(id, ({ status }) => status === "running");
    const refused = await client.request("DELETE", "/v1/sessions/left");
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([
      409,
      "session_busy",
    ]);
    await exec(concierge, "left", "touch /tmp/go");
    await client.ended(id);
    expect((await client.request("DELETE", "/v1/sessions/left")).status).toBe(204);
    expect((await client.request("GET", "/v1/sessions/left")).status).toBe(404);
    expect(await provider.probe(sandbox?.name ?? "")).toEqual({ health: "gone" });
  });

  it("shows what is in its sandbox by name and version, without values", async () => {
    const { client } = concierge;
    const secret = "canary-value-0123456789";
    const env = { SECRET_CANARY: secret };
    const { output } = await run(concierge, 'printf %s "$SECRET_CANARY" | wc -c', {
      sessionKey: "around",
      env,
    });
    expect(output).toBe(`${secret.length}\n`);
    const seen = async () => await client.json("GET", "/v1/sessions/around");
    await expect.poll(seen, { timeout: 20_000 }).toMatchObject({
      environment: {
        versions: { node: expect.stringMatching(/^v24\./), git: expect.stringContaining("git version") },
        variables: expect.arrayContaining(["HOME", "PATH"]),
      },
    });
    expect(JSON.stringify(await seen())).not.toContain("canary-value");
    expect(JSON.stringify(concierge.log)).not.toContain("canary-value");
  });
});

describe("warm sandboxes", () => {
  it("exist after a reap: a new user's first task starts in one, and another is created", async () => {
    await using concierge = await startConcierge({ ...rarely, env: { POOL_WARM_TARGET: "1" } });
    const { client } = concierge;
    await expect.poll(() => pool(concierge), { timeout: 20_000 }).toMatchObject({ warm: 1, total: 1 });
    const { key } = await client.json("POST", "/v1/keys", { userId: "new" });
    const user = createClient({ url: concierge.url, apiKey: String(key) });
    const { id } = await user.start("echo hello");
    expect(await user.ended(id)).toMatchObject({ status: "succeeded", sandbox: { origin: "warm" } });
    expect(await pool(concierge)).toMatchObject({ warm: 0, idle: 1, total: 1 });
    expect(await client.json("POST", "/v1/reap", {})).toMatchObject({ warmed: 1, failures: [] });
    await expect
      .poll(() => pool(concierge), { timeout: 20_000 })
      .toMatchObject({ warm: 1, idle: 1, total: 2 });
  }, 60_000);
});

describe("with all sandboxes in use", () => {
  it("a start is refused and creates nothing; an ended turn's sandbox is released for the next", async () => {
    await using concierge = await startConcierge({
      ...rarely,
      env: { POOL_MAX_SANDBOXES: "2", POOL_MAX_PER_USER: "2" },
    });
    const { client, provider } = concierge;
    const [first, second] = await Promise.all(
      ["one", "two"].map(async (sessionKey) => {
        const { id } = await client.start(waits, { sessionKey });
        return await client.until(id, ({ status }) => status === "running");
      }),
    );
    const third = { prompt: "echo third", sessionKey: "three" };
    const refused = await client.request("POST", "/v1/tasks", third);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ code: "no_room" });
    expect(await client.json("GET", "/v1/tasks?sessionKey=three")).toMatchObject({ items: [] });
    expect((await client.request("PUT", "/v1/sessions/three")).status).toBe(429);

    await exec(concierge, "one", "touch /tmp/go");
    await client.ended(first?.id ?? "");
    expect(await run(concierge, "echo third", { sessionKey: "three" })).toMatchObject({
      status: "succeeded",
      output: "third\n",
    });
    expect(await provider.probe(first?.sandbox?.name ?? "")).toEqual({ health: "gone" });
    expect(await provider.probe(second?.sandbox?.name ?? "")).toMatchObject({ health: "healthy" });
    expect(await pool(concierge)).toMatchObject({ total: 2, leased: 1, idle: 1, max: 2 });
  }, 60_000);
});

describe("a command that runs", () => {
  it("keeps its sandbox until it ends, even at the cap and past the idle time", async () => {
    const env = { POOL_MAX_SANDBOXES: "1", SESSION_IDLE_TIMEOUT_MS: "1000" };
    await using concierge = await startConcierge({ reapEveryMs: 200, env });
    const { client } = concierge;
    await run(concierge, "echo one", { sessionKey: "one" });
    const wait = "until [ -e /tmp/go ]; do sleep 0.1; done; echo kept";
    const waiting = exec(concierge, "one", wait);
    const lastUsedAt = async () => (await client.json("GET", "/v1/sessions/one")).lastUsedAt;
    const marks = new Set<unknown>();
    // At its start, when it turns out to be long, and again later: by then the session would have been idle for long.
    await expect.poll(async () => marks.add(await lastUsedAt()).size, { timeout: 20_000 }).toBeGreaterThan(2);
    const refused = await client.request("POST", "/v1/tasks", { prompt: "echo two", sessionKey: "two" });
    expect(refused.status).toBe(429);
    await exec(concierge, "one", "touch /tmp/go");
    expect(await waiting).toMatchObject({ exitCode: 0, stdout: "kept\n" });
    expect(await run(concierge, "echo two", { sessionKey: "two" })).toMatchObject({ status: "succeeded" });
  }, 60_000);
});

describe("an idle session", () => {
  it("loses its sandbox, and its next turn gets another", async () => {
    await using concierge = await startConcierge({ ...rarely, env: { SESSION_IDLE_TIMEOUT_MS: "1000" } });
    const { client, provider } = concierge;
    const { id, sandbox } = await run(concierge, "echo one", { sessionKey: "idle" });
    const idleMs = async () => Number((await client.json("GET", "/v1/sessions/idle")).idleMs);
    await expect.poll(idleMs, { timeout: 10_000 }).toBeGreaterThan(1100);
    expect(await client.json("POST", "/v1/reap", {})).toMatchObject({ sessions: { released: 1 } });
    expect(await pool(concierge)).toMatchObject({ total: 0, ready: 0 });
    expect(await provider.probe(sandbox?.name ?? "")).toEqual({ health: "gone" });
    await client.continue(id, "echo two");
    const second = await client.ended(id);
    expect(second).toMatchObject({ status: "succeeded", sandbox: { origin: "cold" } });
    expect(second.notices).toMatchObject([{ code: "context_lost", turn: 2 }]);
  }, 60_000);
});

describe("kill -9 of the worker that prepares a session", () => {
  it("does not block it: a task succeeds, and there is one sandbox", async () => {
    await using concierge = await startConcierge(rarely);
    const { client, control, kill } = concierge;
    await control("PUT", "/latency", { createMs: 3000 });
    expect((await client.request("PUT", "/v1/sessions/room")).status).toBe(202);
    await expect.poll(() => creates(concierge), { timeout: 10_000 }).toBe(1);
    kill("Worker");
    const { id } = await client.start("echo survived", { sessionKey: "room" });
    expect(await client.ended(id, 200_000)).toMatchObject({ status: "succeeded" });
    expect(String(await client.output(id))).toBe("survived\n");
    expect((await client.request("PUT", "/v1/sessions/room")).status).toBe(200);
    await client.json("POST", "/v1/reap", {});
    expect(await stats(concierge)).toMatchObject({ running: 1 });
    expect(await pool(concierge)).toMatchObject({ total: 1, idle: 1 });
  }, 240_000);
});
