import { connect, createServer, type Server, type Socket } from "node:net";

/** A way to a server that can go away (its port is closed) and come back at the same address. */
export async function startSwitchProxy(target: string) {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let server: Server | undefined;
  let ownPort = 0;

  const up = async () => {
    const next = createServer((client) => {
      const upstream = connect(Number(port), hostname);
      for (const socket of [client, upstream]) {
        open.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          open.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.pipe(upstream).pipe(client);
    });
    await new Promise<void>((listening) => next.listen(ownPort, "127.0.0.1", listening));
    const address = next.address();
    if (address && typeof address === "object") ownPort = address.port;
    server = next;
  };
  const down = async () => {
    for (const socket of open) socket.destroy();
    await new Promise((closed) => (server ? server.close(closed) : closed(undefined)));
    server = undefined;
  };
  await up();
  return { url: `http://127.0.0.1:${ownPort}`, up, down, [Symbol.asyncDispose]: down };
}
