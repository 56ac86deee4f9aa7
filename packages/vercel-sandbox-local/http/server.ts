import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { World } from "../sandbox/world.ts";
import { ApiError } from "./errors.ts";
import type { Fault, Faults } from "./faults.ts";
import { previewOf, servePreview, upgradePreview } from "./preview.ts";
import { type Call, match, type Reply, type Route } from "./routing.ts";

const apiPrefix = "/api";
const controlPrefix = "/_control";
const keepAliveMs = 75_000;

interface ServerParts {
  world: World;
  routes: Route[];
  control: Route[];
  faults: Faults;
  /** The name of a session's sandbox. */
  sandboxOfSession(id: string): string | undefined;
}

export function createHttpServer(parts: ServerParts): Server {
  const { world, routes, control, faults, sandboxOfSession } = parts;
  const { options } = world;
  const server = createServer((request, response) => {
    // A disconnect ends what only this client waits for, such as a log stream.
    const gone = new AbortController();
    // An explicit reason avoids the default error and its stack trace.
    response.on("close", () => gone.abort("gone"));
    const preview = previewOf(request);
    const answered = preview
      ? servePreview(world, preview, request, response)
      : answer(request, response, gone.signal);
    answered.catch((error: unknown) => {
      options.onLog(`${request.method} ${request.url}: ${String(error)}`);
      response.destroy();
    });
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const preview = previewOf(request);
    if (!preview) return void socket.destroy();
    upgradePreview(world, preview, request, socket, head).catch(() => socket.destroy());
  });
  server.keepAliveTimeout = keepAliveMs;
  return server;

  async function answer(
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const inControl = url.pathname.startsWith(`${controlPrefix}/`) && options.controlToken !== undefined;
    const prefix = inControl ? controlPrefix : apiPrefix;
    const path = url.pathname.startsWith(`${prefix}/`) ? url.pathname.slice(prefix.length) : "";
    const found = match(inControl ? control : routes, request.method ?? "GET", path);
    const name = found?.route.name ?? "unknown";
    const [token, method] = [bearerOf(request) ?? "", request.method ?? "GET"];
    let body = bodyOf(request);
    const sandbox = async () => {
      if (name !== "createSandbox") return sandboxOfSession(found?.params[0] ?? "") ?? found?.params[0];
      const read = await request.toArray();
      body = toAsync(read);
      return (JSON.parse(Buffer.concat(read).toString()) as { name?: string }).name;
    };
    const isAuthorized = isAllowed(request, inControl ? [options.controlToken ?? ""] : options.tokens);
    const fault =
      inControl || !isAuthorized
        ? undefined
        : await faults.take({ token, method, route: name, path, sandbox });
    if (!inControl) faults.countRequest(name);
    if (fault && (await answeredByFault(fault, name, response, signal))) return;

    const reply = await attempt(async () => {
      if (!isAuthorized) throw new ApiError("forbidden", "Not authorized");
      if (!found) throw new ApiError("not_found", "The requested resource does not exist.");
      return found.route.handle(callOf(request, body, url, found.params, signal));
    });
    request.resume();
    if (!inControl) faults.countReply(name, reply.status);
    if (fault?.type === "commitLate") {
      await sleep(fault.delayMs, undefined, { ref: false });
      if (fault.drop) return abandon(reply, response);
    }
    if (fault?.type === "cut" || fault?.type === "errorLine") return await sendPart(reply, response, fault);
    await send(reply, response, signal);
  }

  /** Applies faults that act before the handler. True if the request is answered. */
  async function answeredByFault(
    fault: Fault,
    name: string,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<boolean> {
    switch (fault.type) {
      case "status":
        faults.countReply(name, fault.status);
        if (fault.page !== undefined) {
          response.writeHead(fault.status, { "content-type": "text/html", ...fault.headers }).end(fault.page);
          return true;
        }
        await send(errorReply(fault.status, fault.code, fault.message, fault.headers), response, signal);
        return true;
      case "drop":
        response.destroy();
        return true;
      case "hang":
        await aborted(AbortSignal.any([signal, faults.cleared]));
        response.destroy();
        return true;
      case "delay":
        await sleep(fault.delayMs, undefined, { ref: false });
        return false;
      case "commitLate":
      case "cut":
      case "errorLine":
        return false;
    }
  }

  async function attempt(handle: () => Promise<Reply>): Promise<Reply> {
    try {
      return await handle();
    } catch (error) {
      if (error instanceof ApiError)
        return errorReply(error.status, error.code, error.message, error.headers);
      if (error instanceof z.ZodError) return errorReply(400, "bad_request", z.prettifyError(error), {});
      options.onLog(`unexpected: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
      return errorReply(500, "internal_server_error", "An unexpected error occurred.", {});
    }
  }

  function callOf(
    request: IncomingMessage,
    body: AsyncIterable<Buffer>,
    url: URL,
    params: string[],
    signal: AbortSignal,
  ): Call {
    return {
      params,
      signal,
      query: url.searchParams,
      body,
      header: (name) => {
        const value = request.headers[name];
        return Array.isArray(value) ? value[0] : value;
      },
      json: async (schema) => schema.parse(await readJson(body, options.limits.maxJsonBytes)),
    };
  }
}

function bearerOf({ headers }: IncomingMessage): string | undefined {
  return /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
}

function isAllowed(request: IncomingMessage, tokens: string[]): boolean {
  const given = bearerOf(request);
  return given !== undefined && tokens.some((token) => sameText(token, given));
}

function sameText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

// Abandoning the body must not close the connection; the client still needs the error response.
function bodyOf(request: IncomingMessage): AsyncIterable<Buffer> {
  return request.iterator({ destroyOnReturn: false });
}

async function* toAsync(chunks: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

async function readJson(body: AsyncIterable<Buffer>, maxBytes: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes)
      throw new ApiError("payload_too_large", `The body is larger than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  try {
    return size === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new ApiError("bad_request", "The body is not JSON.");
  }
}

async function send(reply: Reply, response: ServerResponse, signal: AbortSignal): Promise<void> {
  if ("json" in reply) {
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
    response.end(JSON.stringify(reply.json));
    return;
  }
  response.writeHead(reply.status, { "content-type": reply.contentType });
  // Send the headers with the first chunk if it is available in this tick, otherwise alone.
  const { socket } = response;
  socket?.cork();
  response.flushHeaders();
  process.nextTick(() => socket?.uncork());
  for await (const chunk of reply.stream) {
    if (response.destroyed) return;
    if (!response.write(chunk)) await once(response, "drain", { signal }).catch(() => {});
  }
  response.end();
}

/** Sends a part of the response. Each write is flushed, so the client receives it before the connection breaks. */
async function sendPart(
  reply: Reply,
  response: ServerResponse,
  fault: Extract<Fault, { type: "cut" | "errorLine" }>,
): Promise<void> {
  const sent = (chunk: Buffer | string) =>
    new Promise<void>((resolve) => void response.write(chunk, () => resolve()));
  if ("json" in reply) {
    const text = JSON.stringify(reply.json);
    response.writeHead(reply.status, { "content-type": "application/json" });
    await sent(text.slice(0, text.length / 2));
  } else {
    response.writeHead(reply.status, { "content-type": reply.contentType });
    response.flushHeaders();
    for (let left = fault.chunks; left > 0; left--) {
      const { value, done } = await reply.stream.next();
      if (done) break;
      await sent(value);
    }
    await reply.stream.return(undefined);
  }
  if (fault.type === "errorLine") {
    const { code, message } = fault;
    await sent(`${JSON.stringify({ stream: "error", data: { code, message } })}\n`);
  }
  if (fault.type === "cut" && fault.how === "break") response.destroy();
  else response.end();
}

async function abandon(reply: Reply, response: ServerResponse): Promise<void> {
  response.destroy();
  if ("stream" in reply) await reply.stream.return(undefined);
}

function errorReply(status: number, code: string, message: string, headers: Record<string, string>): Reply {
  return { status, headers, json: { error: { code, message } } };
}
