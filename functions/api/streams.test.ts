import { setImmediate as settle } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../test/testing/driver.ts";

let driver: Driver;
beforeEach(() => {
  driver = createDriver();
});

const asStream = { accept: "text/event-stream" };
const say = (token: string, seq: number, text: string) =>
  driver.say(token, "output", {
    seq,
    chunks: [{ stream: "stdout", at: "2026-11-01T12:00:00Z", data: Buffer.from(text).toString("base64") }],
  });

/** Returns a function that lets time pass and wakes sleepers in order. Time passes only through it. */
function stopTheClock() {
  const { clock } = driver.api.deps;
  let sleepers: { at: number; wake: () => void }[] = [];
  clock.sleep = (ms, signal) =>
    new Promise((wake) => {
      sleepers.push({ at: clock.now() + ms, wake });
      signal?.addEventListener("abort", () => wake());
    });
  return async (ms: number) => {
    const until = clock.now() + ms;
    for (;;) {
      await settle();
      const next = sleepers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      sleepers = sleepers.filter((sleeper) => sleeper !== next);
      driver.api.advance(Math.max(0, next.at - clock.now()));
      next.wake();
    }
    driver.api.advance(Math.max(0, until - clock.now()));
    await settle();
  };
}

/** Reads in the background. Has the text so far and whether the stream has ended. */
function listen(response: Response) {
  const received = { text: "", hasEnded: false };
  void (async () => {
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) received.text += part;
    received.hasEnded = true;
  })();
  return received;
}

async function readUntil(response: Response, text: string): Promise<void> {
  const reader = response.body?.getReader();
  for (let received = ""; !received.includes(text); )
    received += Buffer.from((await reader?.read())?.value ?? []).toString();
}

const idsIn = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id ?? "");
const textsIn = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? "").text).filter(Boolean);

describe("a stream of events", () => {
  it("sends comments every 15 seconds, ends after 90, and continues by cursor", async () => {
    const pass = stopTheClock();
    const { id, token } = await driver.running();
    await say(token, 1, "one");
    const first = listen(await driver.api.open(`/v1/tasks/${id}/events`, asStream));
    await settle();
    expect(first.text).toMatch(/^retry: 500\n: connected\n\n/);
    await pass(15_000);
    expect(first.text.match(/: still here/g)).toHaveLength(1);
    await say(token, 2, "two");
    await pass(74_999);
    expect(first.hasEnded).toBe(false);
    expect(first.text.match(/: still here/g)).toHaveLength(5);
    await pass(1);
    expect([first.hasEnded, textsIn(first.text)]).toEqual([true, ["one", "two"]]);

    await say(token, 3, "three");
    const last = idsIn(first.text).at(-1) ?? "";
    const again = listen(
      await driver.api.open(`/v1/tasks/${id}/events`, { ...asStream, "last-event-id": last }),
    );
    await pass(1_000);
    expect([again.hasEnded, textsIn(again.text)]).toEqual([false, ["three"]]);
    await driver.end(token, { lastSeq: 3 });
    await pass(1_000);
    expect(again.hasEnded).toBe(true);
    expect(again.text).toContain('"status":"succeeded"');
  });

  it.each<[string, (response: Response) => unknown]>([
    // Lambda accepts writes after the reader has left.
    ["whose reader has left", (response) => listen(response)],
    ["whose reader stopped reading", (response) => readUntil(response, "for nobody")],
  ])("%s also ends, and then the table is not read any more", async (_what, read) => {
    const pass = stopTheClock();
    const { id, token } = await driver.running();
    const { store } = driver.api.deps;
    let reads = 0;
    const { getTask } = store;
    store.getTask = async (taskId) => {
      reads += 1;
      return await getTask(taskId);
    };
    void read(await driver.api.open(`/v1/tasks/${id}/events`, asStream));
    await pass(1_000);
    for (let seq = 1; seq <= 9; seq++) await say(token, seq, "for nobody");
    await pass(88_000);
    expect(reads).toBeGreaterThan(100);
    await pass(2_000);
    const after = reads;
    await pass(600_000);
    expect(reads).toBe(after);
  });

  it("is not followed for a HEAD request", async () => {
    const pass = stopTheClock();
    const { id } = await driver.running();
    let reads = 0;
    driver.api.deps.store.readRecords = async () => {
      reads += 1;
      return { records: [], more: false };
    };
    const { status, type } = await driver.api.request("HEAD", `/v1/tasks/${id}/events`, {
      headers: asStream,
    });
    await pass(10_000);
    expect([status, type, reads]).toEqual([200, "text/event-stream; charset=utf-8", 0]);
  });
});

describe("a slow reader", () => {
  /** Limits pages to two records and counts them. */
  function page(): { pages: number } {
    const { store } = driver.api.deps;
    const { readRecords } = store;
    const counter = { pages: 0 };
    store.readRecords = async (...args) => {
      counter.pages += 1;
      const { records } = await readRecords(...args);
      return { records: records.slice(0, 2), more: records.length > 2 };
    };
    return counter;
  }

  it.each([
    ["output", "output", {}],
    ["events", "events", asStream],
  ])("of %s causes reads at its own pace and misses nothing", async (_what, path, headers) => {
    const pass = stopTheClock();
    const { id, token } = await driver.running();
    for (let seq = 1; seq <= 60; seq++) await say(token, seq, `line ${seq}\n`);
    await driver.end(token, { lastSeq: 60 });
    const counter = page();
    const response = await driver.api.open(`/v1/tasks/${id}/${path}`, headers);
    await pass(1_000);
    expect(counter.pages).toBeLessThan(5);
    const reader = response.body?.getReader();
    for (let part = 0; part < 10; part++) await reader?.read();
    await pass(1_000);
    expect(counter.pages).toBeGreaterThan(5);
    expect(counter.pages).toBeLessThan(20);
    reader?.releaseLock();
    const rest = listen(response);
    await pass(1_000);
    expect(rest.hasEnded).toBe(true);
    expect(rest.text).toContain("line 60");
    expect(counter.pages).toBeGreaterThan(50);
  });
});

describe("GET output", () => {
  it("is 200 with an empty body if there is no output yet", async () => {
    const id = await driver.start();
    const { status, type, text } = await driver.api.request("GET", `/v1/tasks/${id}/output`);
    expect([status, type, text]).toEqual([200, "text/plain; charset=utf-8", ""]);
  });

  it("breaks instead of ending normally if the table fails in the middle", async () => {
    const { id, token } = await driver.running();
    await say(token, 1, "one");
    const { store } = driver.api.deps;
    const { readRecords } = store;
    let pages = 0;
    store.readRecords = async (...args) => {
      if (++pages > 1) throw new Error("the table is down");
      return { ...(await readRecords(...args)), more: true };
    };
    const response = await driver.api.open(`/v1/tasks/${id}/output`);
    await expect(response.text()).rejects.toThrow("the table is down");
  });
});

it("a stream ends within seconds after its key was revoked", async () => {
  const { api } = driver;
  const { id, key } = (await api.request("POST", "/v1/keys", { body: { userId: "bob" } })).json;
  const { json: task } = await api.request("POST", "/v1/tasks", { key, body: { prompt: "sleep 600" } });
  const pass = stopTheClock();
  const stream = listen(
    await api.app.request(`/v1/tasks/${task.id}/events`, {
      headers: { authorization: `Bearer ${key}`, ...asStream },
    }),
  );
  await pass(6_000);
  expect(stream.hasEnded).toBe(false);
  await api.request("DELETE", `/v1/keys/${id}`);
  await pass(6_000);
  expect(stream.hasEnded).toBe(true);
});

describe("open streams", () => {
  const open = (id: string, key: string) =>
    driver.api.app.request(`/v1/tasks/${id}/events`, {
      headers: { authorization: `Bearer ${key}`, ...asStream },
    });

  it("are limited per key and per user; a stream that ends makes room", async () => {
    const { api } = driver;
    await api.request("PUT", "/v1/users/bob/limits", { body: { maxStreams: 5, maxStreamsPerKey: 3 } });
    const [first, second] = [await api.keyFor("bob"), await api.keyFor("bob")];
    const { json: task } = await api.request("POST", "/v1/tasks", { key: first, body: { prompt: "x" } });
    const pass = stopTheClock();
    const answers = await Promise.all(Array.from({ length: 50 }, () => open(task.id, first)));
    const opened = answers.filter(({ status }) => status === 200).map(listen);
    expect(opened).toHaveLength(3);
    const refused = answers.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused?.json()).toMatchObject({ code: "stream_limit" });
    const others = await Promise.all(Array.from({ length: 10 }, () => open(task.id, second)));
    opened.push(...others.filter(({ status }) => status === 200).map(listen));
    expect(opened).toHaveLength(5);
    // Every stream ends after 90 seconds.
    await pass(91_000);
    expect(opened.every(({ hasEnded }) => hasEnded)).toBe(true);
    expect((await api.deps.store.getHolds("bob", "streams")).entries).toEqual({});
    expect((await open(task.id, first)).status).toBe(200);
  });

  it("stop counting when their process has died", async () => {
    const { api } = driver;
    await api.request("PUT", "/v1/users/bob/limits", { body: { maxStreams: 1 } });
    const key = await api.keyFor("bob");
    const { json: task } = await api.request("POST", "/v1/tasks", { key, body: { prompt: "x" } });
    const dead = { value: String(api.deps.clock.now() + 95_000), groups: ["all"] };
    await api.deps.store.changeHold("bob", "streams", "dead", undefined, dead, { all: 1 });
    expect((await open(task.id, key)).status).toBe(429);
    api.advance(95_000);
    expect((await open(task.id, key)).status).toBe(200);
  });
});
