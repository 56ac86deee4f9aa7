import { afterAll, beforeAll, expect, it } from "vitest";
import { topology } from "../../infra/topology.ts";
import { startBlackHole } from "../testing/black-hole.ts";
import { createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

let concierge: Concierge;
let blackHole: Awaited<ReturnType<typeof startBlackHole>>;

beforeAll(async () => {
  blackHole = await startBlackHole();
  concierge = await startConcierge({ reapEveryMs: 3_600_000 });
});
afterAll(async () => {
  await blackHole[Symbol.asyncDispose]();
  await concierge[Symbol.asyncDispose]();
});

it("hanging webhooks, more than there are workers, delay no other user's start", async () => {
  const { client } = concierge;
  const [{ maxConcurrency: workers }] = topology.functions.Worker.sources;
  const { key } = await client.json("POST", "/v1/keys", { userId: "bob" });
  const bob = createClient({ url: client.url, apiKey: String(key) });
  // Most are stopped before they have a sandbox. They end like any other turn, with a webhook.
  await Promise.all(
    Array.from({ length: workers + 10 }, async () => {
      const { id } = await client.start("sleep 600", { webhook: { url: blackHole.url } });
      await client.stop(id);
    }),
  );
  await expect.poll(() => blackHole.held(), { timeout: 30_000 }).toBeGreaterThanOrEqual(workers);

  const { id } = await bob.start("echo here");
  await bob.until(id, ({ status }) => status !== "queued");
  expect(blackHole.held()).toBeGreaterThanOrEqual(workers);
  expect((await bob.ended(id)).status).toBe("succeeded");
});
