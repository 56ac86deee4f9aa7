import { createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";

/** Between a client and the api: the first answers to `POST /v1/tasks` are lost after the api gave them. */
export async function startDroppingProxy(target: string, times: number) {
  let drops = 0;
  const server = createServer((request, response) => {
    const options = { method: request.method ?? "GET", headers: request.headers };
    const upstream = send(new URL(request.url ?? "/", target), options, (answer) => {
      if (request.method === "POST" && request.url === "/v1/tasks" && drops < times) {
        drops += 1;
        answer.resume().on("end", () => request.socket.destroy());
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => request.socket.destroy());
    request.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    drops: () => drops,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
