import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { Clock, Store } from "@concierge/core";
import { clientConfig } from "@concierge/local";
import { SandboxSessionManager } from "@concierge/sessions";
import { createDynamoStore } from "@concierge/store";
import type { Session } from "@vercel/sandbox";
import { type Concierge, startConcierge } from "../fixtures/stack.ts";
import { createBareSandbox, firstOutput } from "./bare.ts";
import { type Benchmark, interleaved, percentile, timed } from "./harness.ts";

const rounds = 40;
const warmUpRounds = 5;
const execution = { cmd: "echo", args: ["started"], timeoutMs: 10_000, maxBytes: 1000 };
const clock: Clock = { now: () => Date.now(), sleep: (ms) => new Promise((wake) => setTimeout(wake, ms)) };

export const rooms: Benchmark = {
  name: "rooms",
  about: `${rounds} commands in a session's room, kept or made ahead, by the session manager alone, against the bare SDK`,
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000, env: { POOL_WARM_TARGET: "1" } });
    const client = new DynamoDBClient(clientConfig(concierge.endpoints.dynamodb, concierge.credentials));
    const store = createDynamoStore({ client, tableName: concierge.tableName, clock });
    const { provider } = concierge;
    const manager = new SandboxSessionManager({ store, provider, clock, stage: "bench", warmTarget: 1 });
    const bare = await createBareSandbox(concierge.endpoints.sandbox);
    const kept = { userId: "bench", sessionKey: "kept" };
    await manager.getOrCreateSession(kept);
    const samples = { reused: [] as number[], warm: [] as number[], bare: [] as number[] };

    await interleaved(rounds + warmUpRounds, [
      async () => void samples.reused.push(await timed(() => manager.exec(kept, execution))),
      async () => {
        const name = await makeAhead(concierge, store);
        const session = await reserve(store, randomUUID());
        samples.warm.push(await timed(() => manager.exec(session, execution)));
        const given = (await store.getSession("bench", session.sessionKey))?.sandbox?.name;
        if (given !== name) throw new Error(`the room was ${given}, not the one that was made ahead`);
        await manager.invalidateSession(session);
      },
      async () => void samples.bare.push(await timed(() => run(bare))),
    ]);
    client.destroy();
    const figure = (what: "reused" | "warm", atMost: number) => ({
      what: `room and first output, ${what}, p50`,
      unit: "ms" as const,
      value: percentile(samples[what].slice(warmUpRounds), 50),
      baseline: { what: "SDK runCommand", value: percentile(samples.bare.slice(warmUpRounds), 50) },
      target: { of: "ratio" as const, atMost },
    });
    return [figure("reused", 3), figure("warm", 5)];
  },
};

/** By the reaper itself. */
async function makeAhead({ client }: Concierge, store: Store): Promise<string> {
  await client.json("POST", "/v1/reap", {});
  const [warm] = await store.listWarm();
  if (warm?.state !== "ready") throw new Error("the reaper made none ahead");
  return warm.name;
}

/** A session as a start leaves it to the worker: known, and with no sandbox yet. */
async function reserve(store: Store, sessionKey: string) {
  const now = clock.now();
  const set = { lastUsedAt: now, expiresAt: now + 3_600_000 };
  await store.changeSession("bench", sessionKey, { lease: null }, { set });
  return { userId: "bench", sessionKey };
}

async function run(session: Session): Promise<void> {
  await firstOutput(await session.runCommand({ cmd: "echo", args: ["started"], detached: true }));
}
