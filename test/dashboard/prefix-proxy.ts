import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/** A reverse proxy that serves `target` under a path prefix and nothing else. */
export async function startPrefixProxy(target: string, prefix: string) {
  const server = createServer((incoming, outgoing) => {
    const url = incoming.url ?? "/";
    if (!url.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end();
    const { method, headers } = incoming;
    const forwarded = request(new URL(url.slice(prefix.length), target), { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
