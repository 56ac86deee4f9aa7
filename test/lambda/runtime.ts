/**
 * A function as Lambda runs it, in the place of `packages/local/children/function.ts`: AWS's own runtime client in
 * processes of its own, each with one invocation at a time, stopped while it has none, and killed at its time-out.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { connect, ready } from "@concierge/local/connect";
import { createEnvironment, type Environment, type Invocation } from "./environment.ts";

const { token } = await connect<{ token: string }>();
const idle: Environment[] = [];

const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (request, response) => {
  if (request.headers.authorization === `Bearer ${token}`) return void invoke(request, response);
  response.writeHead(401).end();
});

// What fails to load fails now, and not with the first event.
idle.push(await createEnvironment());
server.listen(0, "127.0.0.1", () => ready((server.address() as AddressInfo).port));

async function invoke(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const invocation: Invocation = { headers: request.headers, event: await buffer(request), response };
  const environment = idle.pop() ?? (await createEnvironment());
  if (await environment.run(invocation)) idle.push(environment);
}
