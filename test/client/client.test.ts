import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { ConciergeError, createClient, type TaskEvent } from "@concierge/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCuttingProxy } from "../testing/cutting-proxy.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { generateTypes, schemaFile } from "./generate.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

const clientOf = (url = concierge.url, over = {}) => createClient({ url, apiKey: concierge.apiKey, ...over });
const inOwnSession = (prompt: string) => ({ prompt, sessionKey: randomUUID() });

async function failure(promise: Promise<unknown>): Promise<ConciergeError> {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (error instanceof ConciergeError) return error;
  throw new Error(`expected a ConciergeError, got ${String(error)}`);
}

it("the running api's document gives the checked-in types", async () => {
  const document = await (await fetch(`${concierge.url}/openapi.json`)).text();
  expect((await readFile(schemaFile, "utf8")) === (await generateTypes(document))).toBe(true);
});

describe("a task", () => {
  it("is started, followed, continued, listed and stopped", async () => {
    const client = clientOf();
    const request = inOwnSession("echo hello");
    const { id } = await client.start(request);
    expect((await client.wait(id)).status).toBe("succeeded");
    expect(await client.output(id)).toBe("hello\n");
    expect(await new Response(await client.outputStream(id, { turn: 1 })).text()).toBe("hello\n");

    expect((await client.continue(id, { prompt: "sleep 600" })).turn).toBe(2);
    const listed = await client.list({ sessionKey: request.sessionKey });
    expect(listed.items.map((task) => task.id)).toEqual([id]);
    await client.stop(id);
    expect((await client.wait(id)).status).toBe("stopped");
    expect((await client.get(id)).error?.code).toBe("stopped_by_user");
  });

  it("a start whose answer was lost starts once", async () => {
    await using proxy = await startCuttingProxy(concierge.url);
    let connections = 0;
    // The request arrives, the first two answers do not: one is lost whole, one in the middle.
    proxy.allow(() => [0, 300][connections++] ?? Number.POSITIVE_INFINITY);
    const retried: string[] = [];
    const client = clientOf(proxy.url, {
      onRetry: ({ error }: { error: ConciergeError }) => retried.push(error.code),
    });
    const request = inOwnSession("echo once");
    const { id } = await client.start(request);
    expect(retried).toEqual(["connection_failed", "connection_failed"]);

    const { items } = await clientOf().list({ sessionKey: request.sessionKey });
    expect(items.map((task) => task.id)).toEqual([id]);
    await clientOf().wait(id);

    connections = 0;
    expect((await client.continue(id, { prompt: "echo twice" })).turn).toBe(2);
    expect((await clientOf().wait(id)).turn).toBe(2);
    expect(await clientOf().output(id)).toBe("once\ntwice\n");
  });
});

describe("events", () => {
  const cursors = (events: readonly { cursor: string }[]) => events.map(({ cursor }) => cursor);
  const contents = (events: readonly TaskEvent[]) =>
    events.map(({ cursor: _, ...event }) => JSON.stringify(event)).toSorted();
  const follow = async (url: string, id: string, after?: string) => {
    const events: TaskEvent[] = [];
    for await (const event of clientOf(url).events(id, { after })) events.push(event);
    return events;
  };

  it("over connections that are cut at random are complete, in order and seen once", async () => {
    const { id } = await concierge.client.start("for i in $(seq 30); do echo line $i; sleep 0.1; done");
    await using proxy = await startCuttingProxy(concierge.url);
    proxy.allow(() => 450 + Math.floor(Math.random() * 1_500));
    const events = await follow(proxy.url, id);
    const all = (await concierge.client.events(id)) as unknown as TaskEvent[];
    // A step can be sent before the phase that it belongs to: the server reads the task before its records.
    expect(contents(events)).toEqual(contents(all));
    const text = events.map((event) => (event.type === "output" ? event.text : "")).join("");
    expect(text).toBe(Array.from({ length: 30 }, (_, i) => `line ${i + 1}\n`).join(""));
    expect(proxy.cuts()).toBeGreaterThan(3);
  });

  it("of an ended task are all sent, and from a cursor only the rest", async () => {
    const { id } = await concierge.client.start("echo over");
    await concierge.client.ended(id);
    const all = await follow(concierge.url, id);
    expect(all.at(-1)).toMatchObject({ type: "status", status: "succeeded" });
    expect(cursors(await follow(concierge.url, id, all[1]?.cursor))).toEqual(cursors(all.slice(2)));
    expect(await follow(concierge.url, id, all.at(-1)?.cursor)).toEqual([]);
  });

  it("stop with the caller's signal while the task runs", async () => {
    const { id } = await concierge.client.start("sleep 600");
    const controller = new AbortController();
    const reason = new Error("enough");
    const reading = (async () => {
      for await (const _ of clientOf().events(id, { signal: controller.signal })) controller.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
    await clientOf().stop(id);
  });
});

it("errors have the api's code, status and problem", async () => {
  const client = clientOf();
  expect(await failure(client.get("task_nope"))).toMatchObject({ code: "not_found", status: 404 });
  expect(await failure(clientOf(concierge.url, { apiKey: "wrong" }).pool())).toMatchObject({
    code: "unauthorized",
    status: 401,
  });
  const invalid = await failure(client.start({ prompt: "" }));
  expect(invalid).toMatchObject({ code: "invalid_request", status: 400 });
  expect(invalid.problem?.issues?.[0]?.path).toBe("prompt");
  const { id, sessionKey } = await client.start(inOwnSession("sleep 600"));
  expect(await failure(client.continue(id, { prompt: "x" }))).toMatchObject({
    code: "task_active",
    status: 409,
  });
  expect(await failure(client.start({ prompt: "x", sessionKey }))).toMatchObject({ code: "session_busy" });
  await client.stop(id);
  const unreachable = clientOf("http://127.0.0.1:9", { retries: 0 });
  expect(await failure(unreachable.pool())).toMatchObject({ code: "connection_failed", status: 0 });
});

it("sessions are prepared, used, extended, reset and deleted", async () => {
  const { sessions } = clientOf();
  const key = randomUUID();
  await sessions.prepare(key);
  const result = await sessions.exec(key, { command: "sh", args: ["-c", "echo out; echo err >&2; exit 3"] });
  expect(result).toMatchObject({ exitCode: 3, stdout: "out\n", stderr: "err\n" });
  expect((await sessions.get(key, { probe: true })).health).toBe("healthy");
  expect((await sessions.extend(key, 60_000)).keptUntil).not.toBeNull();
  expect((await sessions.reset(key)).key).toBe(key);
  expect((await sessions.list({ limit: 100 })).items.map((session) => session.key)).toContain(key);
  await sessions.delete(key);
  expect((await sessions.get(key).catch((error) => error)).sandbox ?? null).toBeNull();
});

it("admins read and change flags, keys, the pool, costs and the reaper", async () => {
  const client = clientOf();
  expect((await client.flags.set({ ENABLE_HEALTH_PROBE: "50%" })).ENABLE_HEALTH_PROBE).toBe("50%");
  expect((await client.flags.get()).ENABLE_HEALTH_PROBE).toBe("50%");
  await client.flags.set({ ENABLE_HEALTH_PROBE: "on" });

  const { id, key } = await client.keys.create({ userId: "bob" });
  const bob = clientOf(concierge.url, { apiKey: key });
  expect(await failure(bob.flags.get())).toMatchObject({ status: 403 });
  expect((await client.keys.list()).items.map((item) => item.id)).toContain(id);
  expect(await bob.me()).toMatchObject({ userId: "bob", keyId: id, admin: false });
  const rotated = await client.keys.rotate(id, { overlapMs: 60_000 });
  expect(await clientOf(concierge.url, { apiKey: rotated.key }).me()).toMatchObject({ userId: "bob" });
  await client.keys.delete(id);
  expect((await client.keys.list()).items.map((item) => item.id)).not.toContain(id);

  expect((await client.pool()).max).toBe(100);
  expect((await client.costs()).total.turns).toBeGreaterThan(0);
  expect((await client.reap({ dryRun: true })).dryRun).toBe(true);
  expect(await client.webhookSecret()).toMatch(/^whsec_/);
  expect((await client.health()).status).toBe("ok");
});
