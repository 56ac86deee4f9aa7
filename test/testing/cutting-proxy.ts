import { connect, createServer, type Socket } from "node:net";

/** Between a reader and the api: forwards a number of bytes of a response, then cuts the connection. */
export async function startCuttingProxy(target: string) {
  const { hostname, port } = new URL(target);
  let allowance: () => number = () => Number.POSITIVE_INFINITY;
  let cuts = 0;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let left = allowance();
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on("data", (bytes) => {
      const part = bytes.subarray(0, left);
      left -= part.length;
      client.write(part, () => {
        if (left > 0) return;
        cuts += 1;
        client.destroy();
      });
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    /** How many bytes the next connections may have; called for each. */
    allow(bytes: () => number): void {
      allowance = bytes;
    },
    cuts: () => cuts,
    async [Symbol.asyncDispose](): Promise<void> {
      for (const socket of open) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}
