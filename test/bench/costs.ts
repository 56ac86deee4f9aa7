import { type Client, createClient } from "../testing/client.ts";
import { startConcierge } from "../testing/stack.ts";
import type { Benchmark, Figure } from "./harness.ts";

const messages = 30;
/** All times of the estimate, halved: create 2 s, install 5 s, a message 10 s. */
const scale = 2;
const createMs = 2000 / scale;
const installSeconds = 5 / scale;
const messageSeconds = 10 / scale;
const estimate = { reused: 614 / scale, perMessage: 1020 / scale };

interface Used {
  vcpuSeconds: number;
  creations: number;
}

export const costs: Benchmark = {
  name: "costs",
  about: `${messages} messages in one session, and the same with a sandbox each, in vCPU-seconds (times by ${scale})`,
  async run() {
    const env = { SANDBOX_SETUP: `sleep ${installSeconds}` };
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000, env });
    await concierge.control("PUT", "/latency", { createMs });
    // As in the estimate: without a base snapshot every sandbox installs.
    const effect = { type: "status", status: 400 };
    await concierge.control("POST", "/faults", { route: "createSnapshot", count: 1_000_000, effect });
    const [kept, fresh] = await Promise.all([
      use(concierge.client, "kept", converse),
      use(concierge.client, "fresh", startAnew),
    ]);
    return figuresOf(kept, fresh);
  },
};

function figuresOf(kept: Used, fresh: Used): Figure[] {
  const figure = (what: string, value: number, expected: number): Figure => ({
    what,
    unit: "vCPU-s",
    value,
    baseline: { what: "the estimate", value: expected },
  });
  return [
    {
      ...figure(`${messages} messages in one sandbox`, kept.vcpuSeconds, estimate.reused),
      target: { of: "ratio", atMost: 1.02 },
    },
    figure(`${messages} messages, a sandbox each`, fresh.vcpuSeconds, estimate.perMessage),
    {
      what: "one sandbox against one each",
      unit: "vCPU-s",
      value: kept.vcpuSeconds,
      baseline: { what: "a sandbox each, same run", value: fresh.vcpuSeconds },
      target: { of: "ratio", atMost: 0.62 },
    },
    { what: "sandboxes created for the session", unit: "sandboxes", value: kept.creations, target: once },
  ];
}

const once = { of: "value", atMost: 1, firm: true } as const;

/** Sends its messages as a separate user, so that the costs are separate. */
async function use(
  admin: Client,
  userId: string,
  messageAll: (client: Client) => Promise<void>,
): Promise<Used> {
  const { key } = (await admin.json("POST", "/v1/keys", { userId })) as { key: string };
  const client = createClient({ url: admin.url, apiKey: key });
  await messageAll(client);
  for (;;) {
    const { total } = (await client.json("GET", "/v1/costs")) as { total: { turns: number; used: Used } };
    if (total.turns === messages) return total.used;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const prompt = `sleep ${messageSeconds}`;

async function converse(client: Client): Promise<void> {
  const { id } = await client.start(prompt);
  await client.ended(id, 60_000);
  for (let message = 1; message < messages; message++) {
    await client.continue(id, prompt);
    await client.ended(id, 60_000);
  }
}

async function startAnew(client: Client): Promise<void> {
  for (let message = 0; message < messages; message++) {
    const { id } = await client.start(prompt, { keepAlive: false });
    await client.ended(id, 60_000);
  }
}
