import { EventSource } from "eventsource";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCuttingProxy } from "../testing/cutting-proxy.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ apiProcesses: 2 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

interface Heard {
  id: string;
  type: string;
  status?: string;
  text?: string;
}

/** Follows a task as a browser would, by `EventSource`, until the server answers 204. */
function listen(base: string, id: string, until: (heard: Heard[]) => boolean): Promise<Heard[]> {
  const heard: Heard[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<Heard[]>();
  const source = new EventSource(`${base}/v1/tasks/${id}/events`, {
    fetch: (url, init) =>
      fetch(url, { ...init, headers: { ...init?.headers, authorization: `Bearer ${concierge.apiKey}` } }),
  });
  source.onmessage = ({ data, lastEventId }) => {
    const event = JSON.parse(data) as Omit<Heard, "id">;
    heard.push({ ...event, id: lastEventId });
    if (!until(heard)) return;
    source.close();
    resolve(heard);
  };
  // The source reconnects by itself after a broken connection, but not after the server ended it for good.
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) reject(new Error("the source was closed"));
  };
  return promise;
}

const isEnd = (heard: Heard[]) => heard.at(-1)?.status === "succeeded";
const events = async (id: string) =>
  (await concierge.client.events(id)).map(({ cursor, ...event }) => ({ ...event, cursor }));

describe("a stream of events", () => {
  it("sends the same events as a page, as they happen, and ends with the task", async () => {
    const { id } = await concierge.client.start("for i in 1 2 3 4; do echo line $i; sleep 0.2; done");
    const heard = await listen(concierge.url, id, isEnd);
    const all = await events(id);
    expect(heard.map((event) => event.id)).toEqual(all.map(({ cursor }) => cursor));
    expect(heard.map(({ text }) => text ?? "").join("")).toBe("line 1\nline 2\nline 3\nline 4\n");

    const again = await fetch(`${concierge.url}/v1/tasks/${id}/events`, {
      headers: {
        authorization: `Bearer ${concierge.apiKey}`,
        accept: "text/event-stream",
        "last-event-id": heard.at(-1)?.id ?? "",
      },
    });
    expect(again.status).toBe(204);
  });

  it("of an ended task sends everything and ends", async () => {
    const { id } = await concierge.client.start("echo over");
    await concierge.client.ended(id);
    const heard = await listen(concierge.url, id, isEnd);
    expect(heard.map((event) => event.id)).toEqual((await events(id)).map(({ cursor }) => cursor));
  });

  it("that is cut anywhere resumes without loss or repetition", async () => {
    const { id } = await concierge.client.start("for i in $(seq 12); do echo line $i; sleep 0.05; done");
    await concierge.client.ended(id);
    const wanted = (await events(id)).map(({ cursor }) => cursor);
    const whole = await fetch(`${concierge.url}/v1/tasks/${id}/events`, {
      headers: { authorization: `Bearer ${concierge.apiKey}`, accept: "text/event-stream" },
    });
    const text = await whole.text();
    await using proxy = await startCuttingProxy(concierge.url);
    // After the head and each event, and in the middle of it; the head is a little longer than this.
    const ends = [...text.matchAll(/\n\n/g)].map(({ index }) => index + 2);
    const headBytes = 400;
    for (const end of ends.filter((_, i) => i % 4 === 0)) {
      for (const at of [end + headBytes, end + headBytes - 20]) {
        let first = true;
        proxy.allow(() => {
          const bytes = first ? at : Number.POSITIVE_INFINITY;
          first = false;
          return bytes;
        });
        const heard = await listen(proxy.url, id, isEnd);
        expect(heard.map((event) => event.id)).toEqual(wanted);
      }
    }
    expect(proxy.cuts()).toBeGreaterThan(3);
  }, 120_000);

  it("that is cut repeatedly while the task runs loses nothing", async () => {
    const { id } = await concierge.client.start("for i in $(seq 40); do echo line $i; sleep 0.1; done");
    await using proxy = await startCuttingProxy(concierge.url);
    let connections = 0;
    proxy.allow(() => 900 + 37 * connections++);
    const heard = await listen(proxy.url, id, isEnd);
    expect(heard.map((event) => event.id)).toEqual((await events(id)).map(({ cursor }) => cursor));
    expect(heard.map(({ text }) => text ?? "").join("")).toBe(
      Array.from({ length: 40 }, (_, i) => `line ${i + 1}\n`).join(""),
    );
    expect(proxy.cuts()).toBeGreaterThan(3);
  });

  it("is refused for another user's task, without a key, and for an invalid cursor", async () => {
    const { id } = await concierge.client.start("true");
    const { key } = (await concierge.client.json("POST", "/v1/keys", { userId: "bob" })) as { key: string };
    const ask = async (headers: Record<string, string>) =>
      (
        await fetch(`${concierge.url}/v1/tasks/${id}/events`, {
          headers: { accept: "text/event-stream", ...headers },
        })
      ).status;
    expect(await ask({})).toBe(401);
    expect(await ask({ authorization: `Bearer ${key}` })).toBe(404);
    expect(await ask({ authorization: `Bearer ${concierge.apiKey}`, "last-event-id": "nonsense" })).toBe(400);
  });
});
