/** Stands in for a function URL: one HTTP port in front of the processes of one function. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Failure, type FunctionPool, InvocationError } from "../lambda/function-pool.ts";
import type { Dashboard } from "./dashboard.ts";
import { createHttpEvent, maxEventBytes } from "./event.ts";
import { sendResponse } from "./response.ts";

/** How long to read a refused upload. A client that is still sending does not read the response yet. */
const refusedUploadMs = 2000;

/**
 * Longer than clients keep idle connections. Otherwise a client can send its next request just as we close the
 * connection, and gets ECONNRESET.
 */
const keepAliveTimeout = 75_000;

export interface HttpFront {
  url: string;
  /** Requests wait until this is called with the function of each path. */
  serve(poolOf: (path: string) => FunctionPool): void;
  close(): Promise<void>;
}

/** `dashboard` answers first; what it does not know goes to the functions. */
export async function startHttpFront(
  port: number,
  log: (line: string) => void,
  dashboard?: Dashboard,
): Promise<HttpFront> {
  const pools = Promise.withResolvers<(path: string) => FunctionPool>();
  const server = createServer({ requestTimeout: 0, keepAliveTimeout }, (request, response) => {
    void handle(request, response, pools.promise, log, dashboard);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    serve: pools.resolve,
    async close() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  poolOf: Promise<(path: string) => FunctionPool>,
  log: (line: string) => void,
  dashboard: Dashboard | undefined,
): Promise<void> {
  try {
    if (await dashboard?.answer(request, response)) return;
    if (!allowedMethods.has(request.method ?? "")) return refuseMethod(request, response);
    const body = await readBody(request);
    const event = body && JSON.stringify(createHttpEvent(request, body, new Date()));
    if (!event || Buffer.byteLength(event) > maxEventBytes) return refuseLarge(request, response);
    await (await poolOf)(request.url ?? "/").invoke(event, (answer) => sendResponse(answer, response));
  } catch (error) {
    if (request.destroyed && !request.complete) return;
    log(String(error));
    // The status is already sent. Breaking the connection is the only way to report an incomplete body.
    if (response.headersSent) return void response.socket?.destroySoon();
    const failure = error instanceof InvocationError ? error.failure : "function_error";
    const [status, message] = failureResponses[failure];
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ message }));
  }
}

/** `Request` can only be constructed with these methods. */
const allowedMethods: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
]);

function refuseMethod(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("allow", [...allowedMethods].join(", "));
  refuse(request, response, {
    title: "Method Not Allowed",
    status: 405,
    code: "method_not_allowed",
    detail: `${request.method} is not supported.`,
  });
}

const failureResponses: Record<Failure, [number, string]> = {
  unavailable: [503, "Service Unavailable"],
  died: [502, "Internal Server Error"],
  timed_out: [504, "Gateway Timeout"],
  function_error: [502, "Internal Server Error"],
};

/** Undefined if the body is larger than Lambda accepts. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxEventBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function refuseLarge(request: IncomingMessage, response: ServerResponse): void {
  refuse(request, response, {
    title: "Content Too Large",
    status: 413,
    code: "payload_too_large",
    detail: `A request can have at most ${maxEventBytes} bytes, the limit of a Lambda event.`,
  });
}

function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  problem: { title: string; status: number; code: string; detail: string },
): void {
  response.writeHead(problem.status, { "content-type": "application/problem+json", connection: "close" });
  response.end(JSON.stringify({ type: "about:blank", ...problem }));
  request.resume();
  const timer = setTimeout(() => request.destroy(), refusedUploadMs);
  request.once("close", () => clearTimeout(timer));
}
