/** Converts a function's result into an HTTP response. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { integrationResponseType } from "../lambda/response-stream.ts";

const preludeEnd = Buffer.alloc(8);
const maxPreludeBytes = 1024 * 1024;
/** Node sets these for the connection to the client. */
const hopByHopHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade"]);

interface Head {
  statusCode?: number;
  headers?: Record<string, string | number | boolean>;
  cookies?: string[];
}

export async function sendResponse(answer: IncomingMessage, response: ServerResponse): Promise<void> {
  if (answer.headers["x-response-mode"] !== "streaming") return sendResult(await json(answer), response);
  if (answer.headers["content-type"] !== integrationResponseType) {
    response.writeHead(200, { "content-type": answer.headers["content-type"] });
    return sendBody(answer, response);
  }
  const { head, rest } = await readPrelude(answer);
  writeHead(response, head);
  // The body may start much later. Send the status now.
  response.flushHeaders();
  if (rest.length > 0) response.write(rest);
  await sendBody(answer, response);
}

/**
 * Lambda does not tell a function that its client disconnected, and discards the rest of the body. Do the same, so that
 * no code depends on being told.
 */
async function sendBody(answer: IncomingMessage, response: ServerResponse): Promise<void> {
  for await (const chunk of answer) {
    if (response.destroyed) continue;
    if (!response.write(chunk)) await drainedOrClosed(response);
  }
  response.end();
}

function drainedOrClosed(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}

/** The result of a handler that does not stream. Without a `statusCode`, the result is the body. */
function sendResult(result: unknown, response: ServerResponse): void {
  if (!isHttpResult(result)) {
    writeHead(response, { headers: { "content-type": "application/json" } });
    return void response.end(JSON.stringify(result));
  }
  writeHead(response, { ...result, headers: { "content-type": "application/json", ...result.headers } });
  response.end(Buffer.from(result.body ?? "", result.isBase64Encoded ? "base64" : "utf8"));
}

function isHttpResult(result: unknown): result is Head & { body?: string; isBase64Encoded?: boolean } {
  return typeof result === "object" && result !== null && "statusCode" in result;
}

function writeHead(response: ServerResponse, { statusCode = 200, headers = {}, cookies = [] }: Head): void {
  const forwarded = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    .filter(([name]) => !hopByHopHeaders.has(name));
  const outgoing: OutgoingHttpHeaders = Object.fromEntries(forwarded);
  if (cookies.length > 0) outgoing["set-cookie"] = cookies;
  response.writeHead(statusCode, outgoing);
}

/** The prelude is JSON that ends with eight zero bytes. `rest` is the start of the body. */
async function readPrelude(answer: IncomingMessage): Promise<{ head: Head; rest: Buffer }> {
  let buffered = Buffer.alloc(0);
  while (buffered.length <= maxPreludeBytes) {
    const end = buffered.indexOf(preludeEnd);
    if (end >= 0) {
      const head: Head = JSON.parse(buffered.subarray(0, end).toString());
      return { head, rest: buffered.subarray(end + preludeEnd.length) };
    }
    buffered = Buffer.concat([buffered, await nextChunk(answer)]);
  }
  throw new Error(`the response's prelude is larger than ${maxPreludeBytes} bytes`);
}

async function nextChunk(answer: IncomingMessage): Promise<Buffer> {
  for (;;) {
    const chunk: Buffer | null = answer.read();
    if (chunk) return chunk;
    if (answer.readableEnded || answer.destroyed) throw new Error("the response ended within its prelude");
    await readableOrEnd(answer);
  }
}

function readableOrEnd(answer: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error) => {
      answer.off("readable", done).off("end", done).off("close", done).off("error", done);
      if (error) reject(error);
      else resolve();
    };
    answer.on("readable", done).on("end", done).on("close", done).on("error", done);
  });
}
