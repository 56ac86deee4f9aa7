import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { type Client, createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** Attacks of one user on the others, as a security review made them on a running stack. */

let concierge: Concierge;
afterEach(async () => await concierge[Symbol.asyncDispose]());

async function user(userId: string): Promise<Client & { key: string }> {
  const { key } = await concierge.client.json("POST", "/v1/keys", { userId });
  return { ...createClient({ url: concierge.url, apiKey: String(key) }), key: String(key) };
}

const each = <T>(count: number, make: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, i) => make(i)));

it("one user cannot hold the whole pool", async () => {
  concierge = await startConcierge({ env: { POOL_MAX_SANDBOXES: "4" } });
  const [alice, bob] = [await user("alice"), await user("bob")];
  const first = await alice.start("sleep 600", { limits: { maxDurationMs: 3_600_000 } });
  await alice.until(first.id, ({ status }) => status === "running");
  const answers = await each(8, (i) =>
    alice.request("POST", "/v1/tasks", { prompt: "sleep 600", sessionKey: `s${i}` }),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([429]));
  expect(answers.every(({ headers }) => Number(headers.get("retry-after")) > 0)).toBe(true);
  // Bob still gets a sandbox.
  const { id } = await bob.start("echo fair");
  expect(await bob.ended(id)).toMatchObject({ status: "succeeded", result: { text: "fair\n" } });
  expect((await alice.get(first.id)).status).toBe("running");
  await alice.stop(first.id);
}, 120_000);

it("a user's many queued starts do not delay another user's", async () => {
  concierge = await startConcierge({ env: { POOL_MAX_SANDBOXES: "8", USER_MAX_QUEUED_TASKS: "40" } });
  const [alice, bob] = [await user("alice"), await user("bob")];
  const answers = await each(200, (i) =>
    alice.request("POST", "/v1/tasks", { prompt: "sleep 600", sessionKey: `s${i}` }),
  );
  const codes = await Promise.all(
    answers.map(async (answer) => ((await answer.json()) as { code?: string }).code),
  );
  const accepted = answers.filter(({ status }) => status === 202);
  expect(accepted.length).toBeGreaterThan(0);
  expect(accepted.length).toBeLessThanOrEqual(60);
  for (const code of codes.filter((one) => one !== undefined))
    expect(["queue_limit", "no_room"]).toContain(code);
  const { id } = await bob.start("echo fair");
  const task = await bob.ended(id, 60_000);
  expect(task.status).toBe("succeeded");
  // Alice's turns that have no sandbox are still waiting.
  const { items } = (await alice.json("GET", "/v1/tasks?limit=100")) as { items: { status: string }[] };
  expect(items.filter(({ status }) => status === "running").length).toBeLessThanOrEqual(2);
  expect(
    items.filter(({ status }) => status === "provisioning" || status === "queued").length,
  ).toBeGreaterThan(0);
}, 120_000);

it("a user's slow webhooks delay neither another user's start nor another user's webhook", async () => {
  concierge = await startConcierge();
  await using receiver = await startReceiver();
  const [alice, bob] = [await user("alice"), await user("bob")];
  // One task with many turns would be slow to make: the follow-up of each task sends one webhook.
  const slow = await each(60, (i) =>
    alice.request("POST", "/v1/tasks", {
      prompt: "sleep 600",
      sessionKey: `s${i}`,
      webhook: { url: `${receiver.url}/slow` },
    }),
  );
  const ids = await Promise.all(
    slow
      .filter(({ status }) => status === 202)
      .map(async (answer) => ((await answer.json()) as { id: string }).id),
  );
  expect(ids.length).toBeGreaterThan(40);
  await Promise.all(ids.map((id) => alice.request("POST", `/v1/tasks/${id}/stop`)));
  // All that alice may have under way are under way, and the receiver answers none of them.
  await expect.poll(() => receiver.slow(), { timeout: 60_000 }).toBe(25);
  const { id } = await bob.start("echo fair", { webhook: { url: `${receiver.url}/fast` } });
  expect(await bob.ended(id, 30_000)).toMatchObject({ status: "succeeded" });
  await expect.poll(() => receiver.fast(), { timeout: 8_000 }).toBe(1);
  expect(receiver.most()).toBe(25);
}, 180_000);

it("one key cannot open hundreds of streams, over all api processes", async () => {
  concierge = await startConcierge({ apiProcesses: 2 });
  const [alice, bob] = [await user("alice"), await user("bob")];
  const { id } = await alice.start("sleep 600");
  const other = await bob.start("sleep 600");
  const ending = new AbortController();
  const open = (client: { key: string }, task: string) =>
    fetch(`${concierge.url}/v1/tasks/${task}/events`, {
      headers: { authorization: `Bearer ${client.key}`, accept: "text/event-stream" },
      signal: ending.signal,
    });
  const answers = await each(400, () => open(alice, id));
  const statuses = Map.groupBy(answers, ({ status }) => status);
  expect(statuses.get(200)).toHaveLength(50);
  expect(statuses.get(429)).toHaveLength(350);
  const [refused] = statuses.get(429) ?? [];
  expect(await refused?.json()).toMatchObject({ code: "stream_limit" });
  expect((await open(bob, other.id)).status).toBe(200);
  ending.abort();
  await alice.stop(id);
  await bob.stop(other.id);
}, 120_000);

/** Answers `/fast` at once and `/slow` never. */
async function startReceiver() {
  const held = new Set<ServerResponse>();
  let [fast, most] = [0, 0];
  const server = createServer((request, response) => {
    if (request.url === "/fast") {
      fast += 1;
      response.writeHead(204).end();
      return;
    }
    held.add(response);
    most = Math.max(most, held.size);
    response.on("close", () => held.delete(response));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    slow: () => held.size,
    fast: () => fast,
    most: () => most,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
