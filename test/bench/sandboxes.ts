import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { Clock, SessionName, Store } from "@concierge/core";
import { clientConfig } from "@concierge/dev";
import { SandboxSessionManager } from "@concierge/sessions";
import { createDynamoStore } from "@concierge/store";
import type { Session } from "@vercel/sandbox";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { createBareSandbox, firstOutput } from "./bare.ts";
import { type Benchmark, interleaved, percentile, timed } from "./harness.ts";

/** The user of the stack's client. */
const userId = "dev";
const rounds = 40;
const warmUpRounds = 5;
const execution = { cmd: "echo", args: ["started"], timeoutMs: 10_000, maxBytes: 1000 };
const clock: Clock = { now: () => Date.now(), sleep: (ms) => new Promise((wake) => setTimeout(wake, ms)) };

export const sandboxes: Benchmark = {
  name: "sandboxes",
  about: `${rounds} commands in a session's sandbox, kept or warm, by the session manager and over HTTP, against the bare SDK`,
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000, env: { POOL_WARM_TARGET: "1" } });
    const client = new DynamoDBClient(clientConfig(concierge.endpoints.dynamodb, concierge.credentials));
    const store = createDynamoStore({ client, tableName: concierge.tableName, clock });
    const { provider } = concierge;
    const manager = new SandboxSessionManager({ store, provider, clock, stage: "bench", warmTarget: 1 });
    const bare = await createBareSandbox(concierge);
    const kept = { userId, sessionKey: "kept" };
    await manager.getOrCreateSession(kept);
    const samples = {
      reused: [] as number[],
      warm: [] as number[],
      reusedByHttp: [] as number[],
      warmByHttp: [] as number[],
      bare: [] as number[],
    };
    const byManager = (session: SessionName) => timed(() => manager.exec(session, execution));
    const byHttp = ({ sessionKey }: SessionName) => timed(() => execByHttp(concierge, sessionKey));
    const claimed = async (exec: typeof byManager) => {
      const name = await makeAhead(concierge, store);
      const session = await reserve(store, randomUUID());
      const ms = await exec(session);
      const given = (await store.getSession(userId, session.sessionKey))?.sandbox?.name;
      if (given !== name) throw new Error(`the sandbox was ${given}, not the warm one`);
      await manager.invalidateSession(session);
      return ms;
    };

    await interleaved(rounds + warmUpRounds, [
      async () => void samples.reused.push(await byManager(kept)),
      async () => void samples.reusedByHttp.push(await byHttp(kept)),
      async () => void samples.warm.push(await claimed(byManager)),
      async () => void samples.warmByHttp.push(await claimed(byHttp)),
      async () => void samples.bare.push(await timed(() => run(bare))),
    ]);
    client.destroy();
    const figure = (what: string, measured: readonly number[], atMost: number) => ({
      what: `sandbox and first output, ${what}, p50`,
      unit: "ms" as const,
      value: percentile(measured.slice(warmUpRounds), 50),
      baseline: { what: "SDK runCommand", value: percentile(samples.bare.slice(warmUpRounds), 50) },
      target: { of: "ratio" as const, atMost },
    });
    return [
      figure("reused", samples.reused, 3),
      figure("warm", samples.warm, 5),
      figure("reused, over HTTP", samples.reusedByHttp, 3),
      figure("warm, over HTTP", samples.warmByHttp, 5),
    ];
  },
};

async function execByHttp({ client }: Concierge, sessionKey: string): Promise<void> {
  const { stdout } = (await client.json("POST", `/v1/sessions/${sessionKey}/exec`, {
    command: execution.cmd,
    args: execution.args,
  })) as { stdout: string };
  if (stdout !== "started\n") throw new Error(`it said ${JSON.stringify(stdout)}`);
}

/** The reaper requests a warm sandbox, and a worker creates it. */
async function makeAhead({ client }: Concierge, store: Store): Promise<string> {
  await client.json("POST", "/v1/reap", {});
  for (let looks = 0; looks < 500; looks++) {
    const ready = (await store.listWarm()).find(({ state }) => state === "ready");
    if (ready) return ready.name;
    await clock.sleep(20);
  }
  throw new Error("no warm sandbox was created");
}

/** A session as a start leaves it for the worker: it exists and has no sandbox yet. */
async function reserve(store: Store, sessionKey: string) {
  const now = clock.now();
  const set = { lastUsedAt: now, expiresAt: now + 3_600_000 };
  await store.changeSession(userId, sessionKey, { lease: null }, { set });
  return { userId, sessionKey };
}

async function run(session: Session): Promise<void> {
  await firstOutput(await session.runCommand({ cmd: "echo", args: ["started"], detached: true }));
}
