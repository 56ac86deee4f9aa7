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
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000 });
    const client = new DynamoDBClient(clientConfig(concierge.endpoints.dynamodb));
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
        const { name } = await makeAhead(concierge, store);
        const session = { userId: "bench", sessionKey: randomUUID() };
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

/** As the reaper does it: a slot, a record, a sandbox. */
async function makeAhead({ provider }: Concierge, store: Store): Promise<{ name: string }> {
  const name = `bench-warm-${randomUUID()}`;
  const number = (await store.listSlots()).length + 10;
  await store.takeSlot({ number, name, at: clock.now(), pool: "warm" });
  const made = await provider.create({ name, tags: { stage: "bench" }, timeoutMs: 3_600_000 });
  const { sessionId, startedAt: createdAt, expiresAt } = made;
  await store.createWarm({ state: "ready", name, createdAt, expiresAt, sessionId, slot: number });
  return { name };
}

async function run(session: Session): Promise<void> {
  await firstOutput(await session.runCommand({ cmd: "echo", args: ["started"], detached: true }));
}
