/** One Lambda execution environment: a process of AWS's runtime client, and the Runtime API it talks to. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { clientDirectory } from "./client.ts";

export interface Invocation {
  /** As the pool sends them; Lambda's have the same names. */
  headers: IncomingHttpHeaders;
  event: Buffer;
  response: ServerResponse;
}

export interface Environment {
  /** Whether it can be used again; not after it was killed. */
  run(invocation: Invocation): Promise<boolean>;
}

const api = "/2018-06-01/runtime";
const passedOn = [
  "lambda-runtime-aws-request-id",
  "lambda-runtime-deadline-ms",
  "lambda-runtime-invoked-function-arn",
];

/** Resolves once the handler is loaded; the process is stopped from then on. */
export async function createEnvironment(): Promise<Environment> {
  let current: (Invocation & { done: PromiseWithResolvers<boolean> }) | undefined;
  /** The request for the next event, held while there is none. */
  let next = Promise.withResolvers<ServerResponse>();

  const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      console.error("runtime api:", error);
      response.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const { port } = server.address() as AddressInfo;
  const child = spawn(process.execPath, [`${clientDirectory}/index.mjs`, String(process.env._HANDLER)], {
    env: { ...process.env, AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}` },
    stdio: ["ignore", "inherit", "inherit"],
  });
  child.once("exit", (code, signal) => {
    next.reject(new Error(`the runtime client ended with ${code ?? signal}`));
    current?.response.destroy();
    current?.done.resolve(false);
    server.close();
  });
  await next.promise;

  return {
    async run(invocation) {
      const done = Promise.withResolvers<boolean>();
      current = { ...invocation, done };
      const leftMs = Number(invocation.headers["lambda-runtime-deadline-ms"]) - Date.now();
      // A caller that leaves changes nothing; only the timeout ends an invocation.
      const timer = setTimeout(() => child.kill("SIGKILL"), Math.max(leftMs, 0));
      const held = await next.promise;
      next = Promise.withResolvers();
      for (const name of passedOn) held.setHeader(name, String(invocation.headers[name]));
      child.kill("SIGCONT");
      held.writeHead(200, { "content-type": "application/json" }).end(invocation.event);
      const isReusable = await done.promise;
      clearTimeout(timer);
      return isReusable;
    },
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    if (path === `${api}/invocation/next`) return freeze(response);
    if (path.endsWith("/response")) await answer(request);
    else if (path.endsWith("/error")) await fail(await text(request));
    response.writeHead(202, { "content-type": "application/json" }).end('{"status":"OK"}');
  }

  /** Lambda freezes a process that asks for an event when there is none. */
  function freeze(response: ServerResponse): void {
    child.kill("SIGSTOP");
    next.resolve(response);
    current?.done.resolve(true);
    current = undefined;
  }

  /** Streamed bytes are forwarded as they come; status and headers are the first of them. */
  async function answer(request: IncomingMessage): Promise<void> {
    if (!current) throw new Error("an answer to nothing");
    const { response } = current;
    const isStream = request.headers["lambda-runtime-function-response-mode"] === "streaming";
    response.writeHead(200, {
      "content-type": request.headers["content-type"] ?? "application/json",
      ...(isStream && { "x-response-mode": "streaming" }),
    });
    response.flushHeaders();
    // The caller may have left; the function runs to its end.
    if (response.destroyed) request.resume();
    else await pipeline(request, response).catch(() => request.resume());
    if (request.trailers["lambda-runtime-function-error-type"]) response.destroy();
  }

  async function fail(body: string): Promise<void> {
    if (!current) {
      console.error(`the handler could not be loaded: ${body}`);
      return;
    }
    const { response } = current;
    if (response.headersSent) return void response.destroy();
    response.writeHead(200, { "content-type": "application/json", "x-amz-function-error": "Unhandled" });
    response.end(body);
  }
}
