import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { createVercelProvider } from "@concierge/provider-vercel";
import { createDynamoStore } from "@concierge/store";
import { SandboxSessionManager } from "../index.ts";

/** What a separate process is told: addresses, and what to ask for. */
export interface GuestOrder {
  dynamodb: string;
  tableName: string;
  sandboxes: string;
  token: string;
  userId: string;
  sessionKey: string;
}

// A process that acquires a session's sandbox: it reports that it is ready, waits for the signal, and prints what it
// got.
const order = JSON.parse(process.argv[2] ?? "{}") as GuestOrder;
const { userId, sessionKey } = order;
const credentials = { accessKeyId: "local", secretAccessKey: "local" };
const client = new DynamoDBClient({ endpoint: order.dynamodb, region: "us-east-1", credentials });
const clock = { now: () => Date.now(), sleep: (ms: number) => delay(ms) };
const manager = new SandboxSessionManager({
  store: createDynamoStore({ client, tableName: order.tableName, clock }),
  provider: createVercelProvider({
    token: order.token,
    teamId: "local",
    projectId: "local",
    baseUrl: order.sandboxes,
  }),
  keepOnShutdown: true,
});

console.log("ready");
for await (const _word of createInterface(process.stdin)) {
  const { sandbox, origin } = await manager.getOrCreateSession({ userId, sessionKey });
  console.log(JSON.stringify({ name: sandbox.name, sessionId: sandbox.sessionId, origin }));
  break;
}
process.exit(0);
