import { setImmediate as settle } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "./testing-driver.ts";

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

/** Lets time pass only when the test says so, and wakes what sleeps in its order. */
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

/** Reads in the background; what has come so far, and whether it was all. */
function listen(response: Response) {
  const heard = { text: "", isOver: false };
  void (async () => {
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) heard.text += part;
    heard.isOver = true;
  })();
  return heard;
}

async function readUntil(response: Response, text: string): Promise<void> {
  const reader = response.body?.getReader();
  for (let heard = ""; !heard.includes(text); )
    heard += Buffer.from((await reader?.read())?.value ?? []).toString();
}

const idsIn = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id ?? "");
const textsIn = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? "").text).filter(Boolean);

describe("a stream of events", () => {
  it("says at once how to come back, comments every 15 seconds, ends after 90, and goes on by cursor", async () => {
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
    expect(first.isOver).toBe(false);
    expect(first.text.match(/: still here/g)).toHaveLength(5);
    await pass(1);
    expect([first.isOver, textsIn(first.text)]).toEqual([true, ["one", "two"]]);

    await say(token, 3, "three");
    const last = idsIn(first.text).at(-1) ?? "";
    const again = listen(
      await driver.api.open(`/v1/tasks/${id}/events`, { ...asStream, "last-event-id": last }),
    );
    await pass(1_000);
    expect([again.isOver, textsIn(again.text)]).toEqual([false, ["three"]]);
    await driver.end(token, { lastSeq: 3 });
    await pass(1_000);
    expect(again.isOver).toBe(true);
    expect(again.text).toContain('"status":"succeeded"');
  });

  it.each<[string, (response: Response) => unknown]>([
    // Lambda takes what is written for a reader that has left.
    ["whose reader has left", (response) => listen(response)],
    ["whose reader stopped reading", (response) => readUntil(response, "for nobody")],
  ])("%s ends, too, and then the table is left alone", async (_what, read) => {
    const pass = stopTheClock();
    const { id, token } = await driver.running();
    const { store } = driver.api.deps;
    let looks = 0;
    const { getTask } = store;
    store.getTask = async (taskId) => {
      looks += 1;
      return await getTask(taskId);
    };
    void read(await driver.api.open(`/v1/tasks/${id}/events`, asStream));
    await pass(1_000);
    for (let seq = 1; seq <= 9; seq++) await say(token, seq, "for nobody");
    await pass(88_000);
    expect(looks).toBeGreaterThan(100);
    await pass(2_000);
    const after = looks;
    await pass(600_000);
    expect(looks).toBe(after);
  });

  it("is not followed for one who only asks for its head", async () => {
    const pass = stopTheClock();
    const { id } = await driver.running();
    let looks = 0;
    driver.api.deps.store.readRecords = async () => {
      looks += 1;
      return { records: [], more: false };
    };
    const { status, type } = await driver.api.request("HEAD", `/v1/tasks/${id}/events`, {
      headers: asStream,
    });
    await pass(10_000);
    expect([status, type, looks]).toEqual([200, "text/event-stream; charset=utf-8", 0]);
  });
});

describe("a slow reader", () => {
  /** One new record for each page. */
  function page(): { pages: number } {
    const { store } = driver.api.deps;
    const { readRecords } = store;
    const seen = { pages: 0 };
    store.readRecords = async (...args) => {
      seen.pages += 1;
      const { records } = await readRecords(...args);
      return { records: records.slice(0, 2), more: records.length > 2 };
    };
    return seen;
  }

  it.each([
    ["output", "output", {}],
    ["events", "events", asStream],
  ])("of %s has only read for it what it reads, and misses nothing", async (_what, path, headers) => {
    const pass = stopTheClock();
    const { id, token } = await driver.running();
    for (let seq = 1; seq <= 60; seq++) await say(token, seq, `line ${seq}\n`);
    await driver.end(token, { lastSeq: 60 });
    const seen = page();
    const response = await driver.api.open(`/v1/tasks/${id}/${path}`, headers);
    await pass(1_000);
    expect(seen.pages).toBeLessThan(5);
    const reader = response.body?.getReader();
    for (let part = 0; part < 10; part++) await reader?.read();
    await pass(1_000);
    expect(seen.pages).toBeGreaterThan(5);
    expect(seen.pages).toBeLessThan(20);
    reader?.releaseLock();
    const rest = listen(response);
    await pass(1_000);
    expect(rest.isOver).toBe(true);
    expect(rest.text).toContain("line 60");
    expect(seen.pages).toBeGreaterThan(50);
  });
});

describe("GET output", () => {
  it("is 200 with an empty body while there is none", async () => {
    const id = await driver.start();
    const { status, type, text } = await driver.api.request("GET", `/v1/tasks/${id}/output`);
    expect([status, type, text]).toEqual([200, "text/plain; charset=utf-8", ""]);
  });

  it("is cut, not ended, where the table fails in the middle", async () => {
    const { id, token } = await driver.running();
    await say(token, 1, "one");
    const { store } = driver.api.deps;
    const { readRecords } = store;
    let pages = 0;
    store.readRecords = async (...args) => {
      if (++pages > 1) throw new Error("the table is away");
      return { ...(await readRecords(...args)), more: true };
    };
    const response = await driver.api.open(`/v1/tasks/${id}/output`);
    await expect(response.text()).rejects.toThrow("the table is away");
  });
});
