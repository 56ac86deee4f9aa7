import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";
import { ProviderError } from "../errors.ts";

let driver: Driver;
let key: string;
beforeEach(async () => {
  driver = createDriver();
  key = await driver.api.keyFor("bob");
});

const as = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  driver.api.request(method, path, { key, headers, ...(body !== undefined && { body }) });
const chunk = { stream: "stdout", at: "2026-11-01T12:00:00Z", data: Buffer.from("hi").toString("base64") };

/** A task with output and a long prompt. */
async function running(sessionKey = "default", headers: Record<string, string> = {}) {
  const { json } = await as("POST", "/v1/tasks", { prompt: "x".repeat(2000), sessionKey }, headers);
  await driver.api.work();
  const env = driver.api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}";
  const { token } = JSON.parse(env) as { token: string };
  await driver.say(token, "output", { seq: 1, chunks: [chunk] });
  return { id: json.id as string, token };
}

async function ended(sessionKey = "default", headers: Record<string, string> = {}) {
  const task = await running(sessionKey, headers);
  await driver.end(task.token, { lastSeq: 1 });
  return task;
}

async function leftOf(id: string) {
  const { store } = driver.api.deps;
  const { records } = await store.readRecords(id, { turn: 1, kind: "progress", seq: 0 }, 9);
  return { records, prompts: await store.readPrompts(id, 9), task: await store.getTask(id) };
}
const nothing = { records: [], prompts: [], task: undefined };

describe("DELETE /v1/tasks/{id}", () => {
  it("removes an ended task with its output, prompts, events and idempotency record", async () => {
    const { id } = await ended("default", { "idempotency-key": "once" });
    expect((await as("DELETE", `/v1/tasks/${id}`)).status).toBe(204);
    for (const path of ["", "/events", "/output"])
      expect((await as("GET", `/v1/tasks/${id}${path}`)).status).toBe(404);
    expect((await as("GET", "/v1/tasks")).json.items).toEqual([]);
    expect(await leftOf(id)).toEqual(nothing);
    expect((await as("DELETE", `/v1/tasks/${id}`)).status).toBe(404);
    const again = await as("POST", "/v1/tasks", { prompt: "another" }, { "idempotency-key": "once" });
    expect([again.status, again.json.id === id]).toEqual([202, false]);
  });

  it("refuses an active task and another user's", async () => {
    const { id } = await running();
    expect((await as("DELETE", `/v1/tasks/${id}`)).json.code).toBe("task_active");
    const eve = await driver.api.keyFor("eve");
    const others = await driver.api.request("DELETE", `/v1/tasks/${id}`, { key: eve });
    const none = await driver.api.request("DELETE", "/v1/tasks/task_none", { key: eve });
    expect([others.status, others.text]).toEqual([404, none.text]);
  });

  it("leaves the session free, and the turn's usage counted", async () => {
    const { id } = await ended();
    await as("DELETE", `/v1/tasks/${id}`);
    expect((await as("GET", "/v1/costs")).json.total.turns).toBe(1);
    expect((await as("POST", "/v1/tasks", { prompt: "next" })).status).toBe(202);
  });

  it("races with a continue: exactly one wins", async () => {
    const wins = { delete: 0, continue: 0 };
    for (let round = 0; round < 100; round++) {
      const { id } = await ended(`s${round % 3}`);
      await driver.api.work();
      const remove = async () => {
        for (let steps = 0; steps < round; steps++) await Promise.resolve();
        return await as("DELETE", `/v1/tasks/${id}`);
      };
      const [deleted, continued] = await Promise.all([
        remove(),
        as("POST", `/v1/tasks/${id}/continue`, { prompt: "go on" }),
      ]);
      expect([deleted.status === 204, continued.status === 202].filter(Boolean)).toHaveLength(1);
      if (deleted.status === 204) {
        wins.delete += 1;
        expect(continued.status).toBe(404);
        expect(await leftOf(id)).toEqual(nothing);
      } else {
        wins.continue += 1;
        expect(deleted.json.code).toBe("task_active");
        expect((await as("POST", `/v1/tasks/${id}/stop`)).status).toBe(200);
        await driver.api.work();
      }
    }
    expect(wins.delete).toBeGreaterThan(5);
    expect(wins.continue).toBeGreaterThan(5);
  });

  it("that died in the middle is finished by the reaper", async () => {
    const { id } = await ended();
    const { store } = driver.api.deps;
    const { purgeTask } = store;
    store.purgeTask = async () => {
      throw new Error("the process died");
    };
    expect((await as("DELETE", `/v1/tasks/${id}`)).status).toBe(500);
    store.purgeTask = purgeTask;
    expect((await as("GET", `/v1/tasks/${id}`)).status).toBe(404);
    expect((await leftOf(id)).records).not.toEqual([]);
    expect((await driver.post("/v1/reap")).json.tasks).toEqual({ purge: 1 });
    expect(await leftOf(id)).toEqual(nothing);
    expect((await driver.post("/v1/reap")).json.tasks).toEqual({});
  });
});

describe("DELETE /v1/users/{id}", () => {
  const remove = () => driver.api.request("DELETE", "/v1/users/bob");
  const { forget } = { forget: { kind: "forget", userId: "bob" } as const };
  const everything = async () => {
    const { store } = driver.api.deps;
    const day = new Date(driver.api.deps.clock.now()).toISOString().slice(0, 10);
    return {
      keys: (await store.listKeys({ limit: 10, userId: "bob" })).items.length,
      tasks: (await store.listTasks("bob", { limit: 10 })).items.length,
      sessions: (await store.listSessionKeys("bob")).length,
      usage: await store.getUsage(day, "bob"),
      limits: await store.getUserLimits("bob"),
      holds: (await store.getHolds("bob", "turns")).entries,
      sandboxes: driver.api.world.sandboxes().length,
      deletion: await store.getDeletion("bob"),
    };
  };
  const clean = {
    keys: 0,
    tasks: 0,
    sessions: 0,
    usage: undefined,
    limits: undefined,
    holds: {},
    sandboxes: 0,
  };

  async function aBusyUser() {
    await driver.api.request("PUT", "/v1/users/bob/limits", { body: { maxStreams: 3 } });
    await ended("a");
    await driver.api.work();
    await running("b");
    await as("DELETE", "/v1/sessions/a");
  }

  /** Handles the messages as workers do. */
  const work = async () => await driver.api.work();

  it("revokes the keys at once and removes everything; running tasks are stopped first", async () => {
    await aBusyUser();
    expect((await remove()).status).toBe(202);
    expect((await as("GET", "/v1/me")).status).toBe(401);
    await work();
    expect(driver.api.world.processes.some((process) => process.alive)).toBe(false);
    expect(await everything()).toMatchObject(clean);
    expect((await everything()).deletion).toBeDefined();
    // A request that was accepted before may still have written something.
    driver.api.advance(30_000);
    await work();
    expect(await everything()).toEqual({ ...clean, deletion: undefined });
    const { items } = (await driver.api.request("GET", "/v1/audit?action=user.delete")).json;
    expect(items).toMatchObject([{ target: "bob", userId: "admin" }]);
  });

  it("creates no key for the user meanwhile, and does again afterwards", async () => {
    await remove();
    const create = () => driver.api.request("POST", "/v1/keys", { body: { userId: "bob" } });
    expect((await create()).json.code).toBe("user_deleting");
    await work();
    driver.api.advance(30_000);
    await work();
    expect((await create()).status).toBe(201);
  });

  it.each(["listTasks", "purgeTask", "purgeSession", "purgeUsage", "purgeUser"] as const)(
    "goes on where a worker died in %s, after a redelivery",
    async (method) => {
      await aBusyUser();
      await remove();
      const { store } = driver.api.deps;
      const real = store[method];
      let calls = 0;
      Object.assign(store, {
        [method]: async (...args: never[]) => {
          if (++calls === 1) throw new Error("the process died");
          return await (real as (...args: never[]) => Promise<unknown>)(...args);
        },
      });
      driver.api.sent.splice(0);
      driver.api.sent.push(forget);
      await expect(work()).rejects.toThrow("the process died");
      for (let delivery = 0; delivery < 3; delivery++) {
        driver.api.sent.push(forget, forget);
        await work();
        driver.api.advance(30_000);
      }
      expect(await everything()).toEqual({ ...clean, deletion: undefined });
    },
  );

  it("waits for a proven end: while the provider is away nothing of a running task is removed", async () => {
    await aBusyUser();
    await remove();
    const { provider } = driver.api.deps;
    const { sweep, remove: removeSandbox } = provider;
    const away = async () => {
      throw new ProviderError("transient", "the provider is away");
    };
    Object.assign(provider, { sweep: away, remove: away });
    await work();
    expect((await everything()).tasks).toBe(1);
    Object.assign(provider, { sweep, remove: removeSandbox });
    driver.api.advance(60_000);
    await driver.api.fire("terminate");
    await work();
    await work();
    expect(await everything()).toMatchObject(clean);
  });

  it("is resumed by the reaper if its message was lost", async () => {
    await aBusyUser();
    await remove();
    driver.api.sent.splice(0);
    driver.api.advance(60_000);
    await driver.post("/v1/reap");
    expect(driver.api.sent).toContainEqual(forget);
    await work();
    expect(await everything()).toEqual({ ...clean, deletion: undefined });
  });

  it("is for admins, and not for themselves", async () => {
    expect((await as("DELETE", "/v1/users/eve")).json.code).toBe("missing_scope");
    expect((await driver.api.request("DELETE", "/v1/users/admin")).status).toBe(400);
  });
});
