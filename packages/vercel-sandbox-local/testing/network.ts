import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import type { Sandbox } from "@vercel/sandbox";
import type { SandboxApiOptions } from "../index.ts";
import { localTest, openService, sh } from "./api.ts";

export function networkTest(title: string, body: () => Promise<void>): void {
  localTest("it needs services on this machine")(title, async ({ skip }) => {
    await using service = await openService();
    if (service.isolation === "none") skip("bubblewrap does not work here: the network is NOT ISOLATED");
    await body();
  });
}

/** Every name leads to this port of this machine. */
export function toHost(port: number, trustedCertificates: string[] = []): Partial<SandboxApiOptions> {
  return { network: { allowPrivate: "all", trustedCertificates, resolve: to("127.0.0.1", port) } };
}

export function to(address: string, toPort?: number) {
  return async (_name: string, port: number) => [{ address, port: toPort ?? port }];
}

export async function startHost({
  address = "127.0.0.1",
  certificate,
  answer = (request, response) => {
    request.resume().on("end", () => response.end(`answered ${request.method} ${request.url}`));
  },
}: {
  address?: string;
  certificate?: { key: string; cert: string };
  answer?: (request: IncomingMessage, response: ServerResponse) => void;
} = {}) {
  const requests: IncomingMessage[] = [];
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    requests.push(request);
    answer(request, response);
  };
  const server: Server = certificate ? createHttpsServer(certificate, serve) : createHttpServer(serve);
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async [Symbol.asyncDispose]() {
      server.close();
      if ("closeAllConnections" in server) (server.closeAllConnections as () => void)();
    },
  };
}

export async function serve(sandbox: Sandbox, port: number): Promise<void> {
  const code = `require("http").createServer((q, r) => r.end("served inside")).listen(${port}, () => console.log("up"))`;
  const command = await sandbox.runCommand({ cmd: "node", args: ["-e", code], detached: true });
  using logs = command.logs();
  for await (const { data } of logs) if (data.includes("up")) return;
}

/** The body, or "failed" if there was no answer. */
export async function curl(sandbox: Sandbox, args: string): Promise<string> {
  return sh(sandbox, `curl -sS -m 10 ${args} 2>/dev/null || echo failed`);
}

/** Asks the gateway as a hostile program would. */
export async function askGateway(sandbox: Sandbox, host: string, port: number): Promise<string> {
  const request = JSON.stringify({ kind: "connect", host, port });
  const code = `const s = require("net").connect("/run/sandbox-network/gateway", () => s.write(${JSON.stringify(`${request}\n`)}));
    s.once("data", (d) => { console.log(d[0] === 1 ? "accepted" : "refused"); s.destroy(); });
    s.once("error", () => console.log("no gateway"));`;
  const finished = await sandbox.runCommand("node", ["-e", code]);
  return (await finished.stdout()).trim();
}
