import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createClient } from "./client.ts";
import type { EventsOptions } from "./events.ts";
import { dropped, fakeServer, problem, type Reply, stream } from "./testing/fake-server.ts";

const event = (cursor: string, status = "running") => ({ cursor, turn: 1, type: "status", status });
const over = new Response(null, { status: 204 });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function follow(replies: Reply[], options: EventsOptions = {}) {
  const { fetch, asked } = fakeServer(...replies);
  const retried: number[] = [];
  const events = createClient({ url: "http://x", apiKey: "k", fetch }).events("task_1", {
    onRetry: ({ delayMs }) => retried.push(delayMs),
    ...options,
  });
  const cursors: string[] = [];
  const done = (async () => {
    for await (const { cursor } of events) cursors.push(cursor);
  })();
  done.catch(() => {});
  const resumedAfter = () => asked.map(({ headers }) => headers.get("last-event-id"));
  return { done, cursors, asked, resumedAfter, retried };
}

describe("following a task", () => {
  it("ends with the server's 204", async () => {
    const { done, cursors, resumedAfter } = follow([stream([event("1"), event("2", "succeeded")]), over]);
    await vi.runAllTimersAsync();
    await done;
    expect(cursors).toEqual(["1", "2"]);
    expect(resumedAfter()).toEqual([null, "2"]);
  });

  it("goes on with the next turn if the task was continued at once", async () => {
    const { done, cursors } = follow([
      stream([event("1", "succeeded")]),
      stream([event("2"), event("3", "failed")]),
      over,
    ]);
    await vi.runAllTimersAsync();
    await done;
    expect(cursors).toEqual(["1", "2", "3"]);
  });

  it("resumes after the last event over broken connections, refused ones, 502 and 429", async () => {
    const { done, cursors, resumedAfter, retried } = follow([
      dropped(),
      stream([event("1")], { breaks: true }),
      new Response("bad gateway", { status: 502 }),
      problem(429, "too_many", { "retry-after": "3" }),
      stream([event("2")]),
      stream([event("3", "succeeded")]),
      over,
    ]);
    await vi.runAllTimersAsync();
    await done;
    expect(cursors).toEqual(["1", "2", "3"]);
    expect(resumedAfter()).toEqual([null, null, "1", "1", "1", "2", "3"]);
    expect(retried).toHaveLength(4);
    expect(retried[3]).toBeGreaterThanOrEqual(3_000);
  });

  it("starts after a cursor", async () => {
    const { done, resumedAfter } = follow([over], { after: "7" });
    await done;
    expect(resumedAfter()).toEqual(["7"]);
  });

  it("gives up on a server that never answers", async () => {
    const { done } = follow([dropped()], { giveUpAfterMs: 60_000 });
    await vi.advanceTimersByTimeAsync(59_000);
    let isOver = false;
    void done.catch(() => {
      isOver = true;
    });
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(30_000);
    await expect(done).rejects.toMatchObject({ code: "connection_failed" });
  });

  it("fails at once if the task does not exist", async () => {
    const { done, asked } = follow([problem(404, "not_found")]);
    await expect(done).rejects.toMatchObject({ code: "not_found" });
    expect(asked).toHaveLength(1);
  });

  it("connects again when nothing arrives for 45 seconds", async () => {
    const hanging: typeof fetch = async (_, init) =>
      new Response(
        new ReadableStream({
          start: (controller) =>
            init?.signal?.addEventListener("abort", () => controller.error(init.signal?.reason)),
        }),
      );
    let calls = 0;
    const client = createClient({
      url: "http://x",
      apiKey: "k",
      fetch: async (url, init) => (++calls === 1 ? await hanging(url, init) : over.clone()),
    });
    const done = client.events("task_1").next();
    await vi.advanceTimersByTimeAsync(44_000);
    expect(calls).toBe(1);
    await vi.advanceTimersByTimeAsync(3_000);
    expect((await done).done).toBe(true);
    expect(calls).toBe(2);
  });

  it("is not a tight loop if the server ends every stream at once", async () => {
    const { asked } = follow([stream([])]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked.length).toBeLessThan(20);
  });

  it("stops with the caller's signal, also while it waits to connect again", async () => {
    const controller = new AbortController();
    const { done } = follow([dropped()], { signal: controller.signal });
    await vi.advanceTimersByTimeAsync(2_000);
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(done).rejects.toBe(reason);
  });

  it("closes the connection when the reader stops", async () => {
    let isCancelled = false;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode('id: 1\ndata: {"cursor":"1"}\n\n')),
      cancel: () => {
        isCancelled = true;
      },
    });
    const client = createClient({ url: "http://x", apiKey: "k", fetch: async () => new Response(body) });
    for await (const _ of client.events("task_1")) break;
    expect(isCancelled).toBe(true);
  });
});
