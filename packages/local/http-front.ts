/** The function URL: one port of HTTP before the processes of one function. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Failure, type FunctionPool, InvocationError } from "./function-pool.ts";
import { httpEvent, MAX_EVENT_BYTES } from "./http-event.ts";
import { sendAnswer } from "./http-response.ts";

/** A client that still sends what has been refused is read for this long, so that it can read the answer. */
const REFUSED_UPLOAD_MS = 2000;

/**
 * Longer than clients keep an idle connection. A client that is busy for a moment may otherwise send its next request
 * into a connection that was just closed, and gets ECONNRESET.
 */
const keepAliveTimeout = 75_000;

export interface HttpFront {
  url: string;
  /** Requests wait for this. */
  serve(pool: FunctionPool): void;
  close(): Promise<void>;
}

export async function startHttpFront(port: number, log: (line: string) => void): Promise<HttpFront> {
  const pool = Promise.withResolvers<FunctionPool>();
  const server = createServer({ requestTimeout: 0, keepAliveTimeout }, (request, response) => {
    void handle(request, response, pool.promise, log);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    serve: pool.resolve,
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
  pool: Promise<FunctionPool>,
  log: (line: string) => void,
): Promise<void> {
  try {
    if (!METHODS.has(request.method ?? "")) return refuseMethod(request, response);
    const body = await readBody(request);
    const event = body && JSON.stringify(httpEvent(request, body, new Date()));
    if (!event || Buffer.byteLength(event) > MAX_EVENT_BYTES) return refuseLarge(request, response);
    await (await pool).invoke(event, (answer) => sendAnswer(answer, response));
  } catch (error) {
    if (request.destroyed && !request.complete) return;
    log(String(error));
    // Once the answer has begun, cutting it is the only way left to say that it is not whole.
    if (response.headersSent) return void response.socket?.destroySoon();
    const failure = error instanceof InvocationError ? error.failure : "function_error";
    const [status, message] = ANSWERS[failure];
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ message }));
  }
}

/** What a function is asked with; `Request`, which it is given, can not be made of any other. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

function refuseMethod(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("allow", [...METHODS].join(", "));
  refuse(request, response, {
    title: "Method Not Allowed",
    status: 405,
    code: "method_not_allowed",
    detail: `${request.method} is not a method that a function takes.`,
  });
}

const ANSWERS: Record<Failure, [number, string]> = {
  unavailable: [503, "Service Unavailable"],
  died: [502, "Internal Server Error"],
  timed_out: [504, "Gateway Timeout"],
  function_error: [502, "Internal Server Error"],
};

/** Nothing when there is more of it than Lambda takes. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_EVENT_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function refuseLarge(request: IncomingMessage, response: ServerResponse): void {
  refuse(request, response, {
    title: "Content Too Large",
    status: 413,
    code: "payload_too_large",
    detail: `A request may have ${MAX_EVENT_BYTES} bytes, as an event of a Lambda function.`,
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
  const timer = setTimeout(() => request.destroy(), REFUSED_UPLOAD_MS);
  request.once("close", () => clearTimeout(timer));
}
