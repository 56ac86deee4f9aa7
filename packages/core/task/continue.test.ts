import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";

let on: Driver;
beforeEach(() => {
  on = createDriver();
});

async function ended(): Promise<string> {
  const { id, token } = await on.running();
  await on.end(token);
  await on.api.work();
  return id;
}

const next = (id: string, prompt: string, key?: string) =>
  on.api.request("POST", `/v1/tasks/${id}/continue`, {
    body: { prompt },
    ...(key !== undefined && { headers: { "idempotency-key": key } }),
  });

describe("continue with an Idempotency-Key", () => {
  it("never answers a refused retry with another request's turn", async () => {
    const id = await ended();
    await next(id, "first", "a");
    // Refused, because the turn of `a` runs; the key is bound to nothing.
    expect((await next(id, "second", "b")).status).toBe(409);
    await on.api.work();
    await on.stop(id);
    await on.api.work();
    expect((await next(id, "third", "c")).json).toMatchObject({ turn: 3, prompt: "third" });
    // The retry of `b` finds the turn of `c`: still refused, and its prompt is not swallowed.
    const retried = await next(id, "second", "b");
    expect([retried.status, retried.json.code]).toEqual([409, "task_active"]);
    await on.api.work();
    await on.stop(id);
    await on.api.work();
    expect((await next(id, "second", "b")).json).toMatchObject({ turn: 4, prompt: "second" });
  });

  it("answers a retry with the turn it made, even after later turns", async () => {
    const id = await ended();
    expect((await next(id, "first", "a")).json.turn).toBe(2);
    const again = await next(id, "first", "a");
    expect([again.status, again.json.turn, again.json.prompt]).toEqual([202, 2, "first"]);
    await on.api.work();
    await on.stop(id);
    await on.api.work();
    await next(id, "second", "b");
    expect((await next(id, "first", "a")).status).toBe(202);
    expect((await on.get(id)).turn).toBe(3);
  });

  it("sends the work message again, in case the first try died before", async () => {
    const id = await ended();
    const { work } = on.api.deps;
    const { send } = work;
    work.send = async () => {
      throw new Error("the queue is away");
    };
    expect((await next(id, "first", "a")).status).toBe(500);
    work.send = send;
    expect((await next(id, "first", "a")).json).toMatchObject({ turn: 2, status: "queued" });
    expect(on.api.sent).toEqual([{ kind: "provision", taskId: id, turn: 2 }]);
    await on.api.work();
    expect((await on.get(id)).status).toBe("running");
    on.api.sent.length = 0;
    await next(id, "first", "a");
    expect(on.api.sent).toEqual([]);
  });

  it("rejects the key with another body", async () => {
    const id = await ended();
    await next(id, "first", "a");
    expect((await next(id, "another", "a")).json.code).toBe("idempotency_conflict");
  });

  it("creates one turn from ten concurrent requests", async () => {
    const id = await ended();
    const answers = await Promise.all(Array.from({ length: 10 }, () => next(id, "go", "a")));
    expect(answers.map(({ status, json }) => [status, json.turn])).toEqual(answers.map(() => [202, 2]));
    expect((await on.get(id)).turn).toBe(2);
  });
});

describe("continue", () => {
  it("answers 202, not 409, when only the response of its write was lost", async () => {
    const id = await ended();
    const { store } = on.api.deps;
    const { changeTask } = store;
    store.changeTask = async (...given) => {
      // As the SDK does: the first try was applied, the second finds the item changed.
      if (given[2].set?.turn === 2) await changeTask(...given);
      return await changeTask(...given);
    };
    const answer = await next(id, "more");
    expect([answer.status, answer.json.turn]).toEqual([202, 2]);
  });

  it("keeps the winner's prompt when two requests race", async () => {
    const id = await ended();
    const long = "x".repeat(2000);
    const answers = await Promise.all([next(id, `${long} a`), next(id, `${long} b`)]);
    const won = answers.filter(({ status }) => status === 202);
    expect(won).toHaveLength(1);
    await on.api.work();
    const process = on.api.world.processes.at(-1);
    const files = on.api.world.files(process?.sandbox ?? "");
    expect(files?.get(`${process?.runDir}/prompt`)).toBe(won[0]?.json.prompt);
  });
});

it("shows a long prompt whole, which has its own item", async () => {
  const prompt = "ü".repeat(5000);
  const id = await on.start({ prompt });
  expect((await on.get(id)).prompt).toBe(prompt);
  expect((await on.api.request("GET", "/v1/tasks")).json.items[0].prompt).toBe(prompt);
  expect(JSON.stringify(await on.api.deps.store.getTask(id))).not.toContain("üü");
});

describe("a turn that would outlive its sandbox", () => {
  it("is rejected with the limit, on start and continue", async () => {
    const { sandboxMaxMs } = on.api.deps.config;
    const limits = { maxDurationMs: sandboxMaxMs + 1 };
    const refused = await on.post("/v1/tasks", { prompt: "x", limits });
    expect(refused.json).toMatchObject({
      status: 400,
      code: "invalid_request",
      issues: [{ path: "limits.maxDurationMs", message: expect.stringContaining(String(sandboxMaxMs)) }],
    });
    const id = await ended();
    expect((await on.post(`/v1/tasks/${id}/continue`, { prompt: "x", limits })).status).toBe(400);
    expect((await on.get(id)).turn).toBe(1);
    const longest = { maxDurationMs: sandboxMaxMs };
    expect((await on.post("/v1/tasks", { prompt: "x", sessionKey: "b", limits: longest })).status).toBe(202);
  });
});
