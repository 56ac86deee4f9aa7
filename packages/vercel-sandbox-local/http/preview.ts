import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { linkStreams } from "../network/link.ts";
import type { SandboxRecord } from "../sandbox/records.ts";
import type { World } from "../sandbox/world.ts";

/** `localFetch` uses it, because few resolvers know names under `localhost`. */
export const previewPrefix = "/_route/";

interface Preview {
  subdomain: string;
  /** The path that the server in the sandbox sees. */
  path: string;
}

/** The name of a port's route, also in `domain()`. It cannot be guessed, as the sandbox's id cannot. */
export function subdomainOf(sandbox: SandboxRecord, port: number): string {
  return `${sandbox.id.replace("_", "-")}-${port}`;
}

/** The route that a request is for: by the first label of its host, or by its path. */
export function previewOf({ url = "/", headers }: IncomingMessage): Preview | undefined {
  const [label = "", rest] = (headers.host ?? "").split(".", 2);
  if (rest !== undefined && label.startsWith("sbx-")) return { subdomain: label, path: url };
  if (!url.startsWith(previewPrefix)) return undefined;
  const [subdomain = "", ...path] = url.slice(previewPrefix.length).split("/");
  return { subdomain, path: `/${path.join("/")}` };
}

/** Passes the request to the server in the sandbox. */
export async function servePreview(
  world: World,
  preview: Preview,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const connection = await dial(world, preview).catch(() => undefined);
  if (!connection) {
    response.writeHead(502, { "content-type": "text/plain" }).end("Nothing answers on this route.\n");
    return;
  }
  const outgoing = requestOver(connection, preview, request);
  response.on("close", () => connection.destroy());
  outgoing.on("error", () => response.destroy());
  outgoing.on("response", (incoming) => {
    response.writeHead(incoming.statusCode ?? 502, incoming.statusMessage, incoming.rawHeaders);
    incoming.on("error", () => response.destroy());
    incoming.pipe(response);
  });
  request.pipe(outgoing);
}

/** The same for WebSockets. */
export async function upgradePreview(
  world: World,
  preview: Preview,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const connection = await dial(world, preview);
  socket.on("error", () => connection.destroy());
  const lines = pairLines(request.rawHeaders);
  connection.write(`${request.method} ${preview.path} HTTP/1.1\r\n${lines}\r\n`);
  if (head.length > 0) socket.unshift(head);
  linkStreams(socket, connection);
}

function requestOver(connection: Duplex, { path }: Preview, { method = "GET", rawHeaders }: IncomingMessage) {
  return httpRequest({
    createConnection: () => connection,
    method,
    path,
    headers: rawHeaders as never,
    setHost: false,
  });
}

async function dial(world: World, { subdomain }: Preview): Promise<Duplex> {
  const { sandbox, port } = routeNamed(world, subdomain);
  const running = world.running.get(sandbox.currentSessionId);
  if (!running?.gateway) throw new Error("the sandbox does not run, or has no network of its own");
  return running.gateway.dial((dialId) => running.machine.dial(port, dialId));
}

function routeNamed({ store }: World, subdomain: string): { sandbox: SandboxRecord; port: number } {
  for (const sandbox of store.sandboxes.values()) {
    const port = sandbox.ports.find((one) => subdomainOf(sandbox, one) === subdomain);
    if (port !== undefined) return { sandbox, port };
  }
  throw new Error("no such route");
}

function pairLines(raw: readonly string[]): string {
  let text = "";
  for (let index = 0; index + 1 < raw.length; index += 2) text += `${raw[index]}: ${raw[index + 1]}\r\n`;
  return text;
}
