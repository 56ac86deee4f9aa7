import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startBlackHole } from "../../testing/black-hole.ts";
import { type Concierge, startConcierge } from "../../testing/stack.ts";
import { createUsers, each, expectPassesFinished, startOthers } from "./load.ts";

let concierge: Concierge;
beforeAll(async () => {
  concierge = await startConcierge({ reapEveryMs: 500 });
});
afterAll(async () => await concierge[Symbol.asyncDispose]());

it("one user's webhooks hang: her turns end normally, and the others' webhooks all arrive", async () => {
  await using blackHole = await startBlackHole();
  await using receiver = await startReceiver();
  const users = await createUsers(concierge);
  const { alice } = users;
  const hers = await each(10, (i) => alice.start(`echo ${i}`, { webhook: { url: blackHole.url } }));
  const othersEnded = await startOthers(users, () => ({ webhook: { url: receiver.url } }));

  const others = await othersEnded();
  for (const { id } of hers)
    expect(await alice.ended(id)).toMatchObject({ status: "succeeded", notices: [] });
  await expect.poll(() => blackHole.taken(), { timeout: 30_000 }).toBeGreaterThanOrEqual(hers.length);
  const wanted = others.map(({ id }) => `${id} task.succeeded`).sort();
  await expect.poll(() => receiver.received(), { timeout: 45_000 }).toEqual(wanted);
  // Alice's webhooks are retried and block nothing: each task can continue.
  await expect.poll(() => blackHole.taken(), { timeout: 45_000 }).toBeGreaterThan(hers.length);
  await alice.continue(hers[0]?.id ?? "", "echo on");
  expect(await alice.ended(hers[0]?.id ?? "")).toMatchObject({ status: "succeeded", turn: 2 });
  expectPassesFinished(concierge, { atLeast: 5 });
}, 180_000);

/** Answers correctly and remembers each reported end once. */
async function startReceiver() {
  const received = new Set<string>();
  const server = createServer(async (request, response) => {
    const event = JSON.parse(Buffer.concat(await request.toArray()).toString()) as {
      type: string;
      data: { taskId: string };
    };
    received.add(`${event.data.taskId} ${event.type}`);
    response.writeHead(204).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received: () => [...received].sort(),
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
