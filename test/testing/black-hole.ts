import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** A receiver that accepts requests and never answers. */
export async function startBlackHole() {
  const held = new Set<Socket>();
  let taken = 0;
  const server = createServer((request) => {
    taken += 1;
    request.resume();
  });
  server.on("connection", (socket) => {
    held.add(socket);
    socket.once("close", () => held.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    /** The requests that hang now, and all there ever were. */
    held: () => held.size,
    taken: () => taken,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
