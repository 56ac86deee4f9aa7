/** A function's answer, turned back into HTTP. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { INTEGRATION_RESPONSE } from "./children/response-stream.ts";

const PRELUDE_END = Buffer.alloc(8);
const MAX_PRELUDE_BYTES = 1024 * 1024;
/** They belong to the connection, which is ours. */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade"]);

interface Head {
  statusCode?: number;
  headers?: Record<string, string | number | boolean>;
  cookies?: string[];
}

export async function sendAnswer(answer: IncomingMessage, response: ServerResponse): Promise<void> {
  if (answer.headers["x-response-mode"] !== "streaming") return sendResult(await json(answer), response);
  if (answer.headers["content-type"] !== INTEGRATION_RESPONSE) {
    response.writeHead(200, { "content-type": answer.headers["content-type"] });
    return sendBody(answer, response);
  }
  const { head, rest } = await readPrelude(answer);
  writeHead(response, head);
  // Before the first byte of the body there may be a long silence: the client is to see the status now.
  response.flushHeaders();
  if (rest.length > 0) response.write(rest);
  await sendBody(answer, response);
}

/**
 * Lambda does not tell a function that its client has left: the function writes on, and what it writes is thrown away.
 * The same is done here, so that nothing comes to depend on a notice that it would not get.
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

/** The result of a handler that does not stream; one without a `statusCode` is the body itself. */
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
  const kept = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    .filter(([name]) => !HOP_BY_HOP.has(name));
  const outgoing: OutgoingHttpHeaders = Object.fromEntries(kept);
  if (cookies.length > 0) outgoing["set-cookie"] = cookies;
  response.writeHead(statusCode, outgoing);
}

/** The prelude is JSON up to eight zero bytes; what has arrived behind them is the body's beginning. */
async function readPrelude(answer: IncomingMessage): Promise<{ head: Head; rest: Buffer }> {
  let read = Buffer.alloc(0);
  while (read.length <= MAX_PRELUDE_BYTES) {
    const end = read.indexOf(PRELUDE_END);
    if (end >= 0) {
      const head: Head = JSON.parse(read.subarray(0, end).toString());
      return { head, rest: read.subarray(end + PRELUDE_END.length) };
    }
    read = Buffer.concat([read, await nextChunk(answer)]);
  }
  throw new Error(`no end of the response's prelude in ${MAX_PRELUDE_BYTES} bytes`);
}

async function nextChunk(answer: IncomingMessage): Promise<Buffer> {
  for (;;) {
    const chunk: Buffer | null = answer.read();
    if (chunk) return chunk;
    if (answer.readableEnded || answer.destroyed) throw new Error("the response ended in its prelude");
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
