import { once } from "node:events";
import { mkdirSync } from "node:fs";
import type { AddressInfo } from "node:net";
import dynalite from "dynalite";
import { type GuardOptions, guard } from "../iam/guard.ts";
import { connect, ownHost, ready } from "../lambda/connect.ts";

const { path, port, access } = await connect<{ path: string; port: number; access: GuardOptions }>(close);
mkdirSync(path, { recursive: true });
const server = dynalite({ path, createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 });
guard(server, access);

// dynalite throws from its request listener if a caller disconnects in the middle of a request, as a killed function
// does. After any other error its state is unknown: exit, and let the keeper restart it.
process.on("uncaughtException", (error: NodeJS.ErrnoException) => {
  if (error.code === "ECONNRESET") return;
  console.error(error);
  process.exit(1);
});

server.listen(port, ownHost);
await once(server, "listening");
ready((server.address() as AddressInfo).port);

function close(): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
