/**
 * A function as Lambda runs it, instead of `packages/dev/lambda/function.ts`: AWS's own runtime client in separate
 * processes, one invocation at a time, stopped in between, and killed at the timeout.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { connect, ownHost, ready } from "@concierge/dev/connect";
import { createEnvironment, type Environment, type Invocation } from "./environment.ts";

const { token } = await connect<{ token: string }>();
const idle: Environment[] = [];

const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (request, response) => {
  if (request.headers.authorization === `Bearer ${token}`) return void invoke(request, response);
  response.writeHead(401).end();
});

// A handler that fails to load must fail now, not with the first event.
idle.push(await createEnvironment());
server.listen(0, ownHost, () => ready((server.address() as AddressInfo).port));

async function invoke(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const invocation: Invocation = { headers: request.headers, event: await buffer(request), response };
  const environment = idle.pop() ?? (await createEnvironment());
  if (await environment.run(invocation)) idle.push(environment);
}
