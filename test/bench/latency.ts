import { randomUUID } from "node:crypto";
import type { Session } from "@vercel/sandbox";
import type { Client } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { createBareSandbox, firstOutput } from "./bare.ts";
import { type Benchmark, type Figure, interleaved, percentile, timed } from "./harness.ts";
import { firstOutputOf } from "./turn.ts";

const rounds = 15;
const distantRounds = 6;
/** The latency of a remote provider's call: a bare command makes two. */
const distanceMs = 100;
const warmTarget = 5;
const script = "echo started";

type Samples = Awaited<ReturnType<typeof measure>>;

export const latency: Benchmark = {
  name: "latency",
  about: "from POST to the first output a reader gets: in a new sandbox, a reused one, one made ahead",
  async run() {
    const env = { POOL_WARM_TARGET: String(warmTarget) };
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000, env });
    const session = await createBareSandbox(concierge);
    await measure(concierge, session, 2);
    const near = await measure(concierge, session, rounds);
    for (const route of ["getSandbox", "writeFiles", "runCommand", "getLogs", "createSandbox"]) {
      const effect = { type: "delay", delayMs: distanceMs };
      await concierge.control("POST", "/faults", { route, count: 1_000_000, effect });
    }
    const distant = await measure(concierge, session, distantRounds);
    await concierge.control("DELETE", "/faults");
    return figuresOf(near, distant);
  },
};

function figuresOf(near: Samples, distant: Samples): Figure[] {
  const against = (origin: "cold" | "reused" | "warm", samples: Samples, away = ""): Figure => {
    const baseline = origin === "cold" ? samples.bareCold : samples.bare;
    const what = origin === "cold" ? "SDK create + runCommand" : "SDK runCommand";
    return {
      what: `first output, ${origin} sandbox${away}, p50`,
      unit: "ms",
      value: percentile(samples[origin], 50),
      baseline: { what, value: percentile(baseline, 50) },
    };
  };
  const away = `, provider ${distanceMs} ms away`;
  return [
    against("cold", near),
    { ...against("reused", near), target: { of: "ratio", atMost: 3 } },
    { ...against("warm", near), target: { of: "ratio", atMost: 5 } },
    against("cold", distant, away),
    { ...against("reused", distant, away), target: { of: "ratio", atMost: 3 } },
    { ...against("warm", distant, away), target: { of: "ratio", atMost: 5 } },
  ];
}

async function measure(concierge: Concierge, session: Session, count: number) {
  const { client } = concierge;
  const samples = {
    cold: [] as number[],
    reused: [] as number[],
    warm: [] as number[],
    bare: [] as number[],
    bareCold: [] as number[],
  };
  let id = "";
  const makeAhead = async () => {
    for (let looks = 0; ; looks++) {
      const pool = (await client.json("GET", "/v1/pool")) as { warm: number; creating: number };
      if (pool.warm > 0 && pool.creating === 0) return;
      if (looks > 500) throw new Error("no warm sandbox was created");
      if (looks % 100 === 0) await client.json("POST", "/v1/reap", {});
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };

  await interleaved(count, [
    async () => {
      await makeAhead();
      const sessionKey = randomUUID();
      const { ms, task } = await turn(client, () => client.start(script, { sessionKey }), "warm");
      samples.warm.push(ms);
      id = task;
    },
    async () => {
      if (id === "") id = (await turn(client, () => client.start(script), "warm")).task;
      samples.reused.push((await turn(client, () => client.continue(id, script), "reused")).ms);
    },
    async () => {
      // Longer than any warm sandbox lives: it gets a new one.
      const limits = { maxDurationMs: 5 * 60 * 60_000 };
      samples.cold.push(
        (await turn(client, () => client.start(script, { limits, keepAlive: false }), "cold")).ms,
      );
    },
    async () => void samples.bare.push(await timed(() => run(session))),
    async () => {
      const ms = await timed(async () => {
        const fresh = await createBareSandbox(concierge);
        await run(fresh);
      });
      samples.bareCold.push(ms);
    },
  ]);
  return samples;
}

async function turn(client: Client, begin: () => ReturnType<Client["start"]>, origin: string) {
  const began = performance.now();
  const task = await begin();
  await firstOutputOf(client, task);
  const ms = performance.now() - began;
  const { sandbox } = await client.ended(task.id);
  if (sandbox?.origin !== origin) throw new Error(`the sandbox was ${sandbox?.origin}, not ${origin}`);
  return { ms, task: task.id };
}

async function run(session: Session): Promise<void> {
  await firstOutput(await session.runCommand({ cmd: "bash", args: ["-c", script], detached: true }));
}
