/**
 * Stands in for the Lambda Node.js runtime: loads the handler and passes it events and a context. Events come over HTTP
 * from the host. Unlike on Lambda, invocations of one process run concurrently.
 */
import { existsSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { enableCompileCache } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { connect, ownHost, ready } from "./connect.ts";
import { withDeadline } from "./deadline.ts";
import { awslambda, isStreaming, ResponseStream } from "./response-stream.ts";

type Handler = (event: unknown, context: unknown) => unknown;

const { token, cacheDir } = await connect<{ token: string; cacheDir: string }>();
// Compiling takes half of the start. With the cache, a replacement is ready in half the time.
enableCompileCache(cacheDir);
Object.assign(globalThis, { awslambda });
const handler = await load(variable("LAMBDA_TASK_ROOT"), variable("_HANDLER"));

// The host reuses connections. Closing an idle one here would race with its next invocation.
const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (request, response) => {
  if (request.headers.authorization === `Bearer ${token}`) return void invoke(request, response);
  response.writeHead(401).end();
});
server.listen(0, ownHost, () => ready((server.address() as AddressInfo).port));

async function load(root: string, name: string): Promise<Handler> {
  const dot = name.lastIndexOf(".");
  const file = [".ts", ".mjs", ".js"].map((end) => join(root, name.slice(0, dot) + end)).find(existsSync);
  if (!file) throw new Error(`no module found for the handler ${name}`);
  const module: Record<string, unknown> = await import(pathToFileURL(file).href);
  const found = module[name.slice(dot + 1)];
  if (typeof found !== "function") throw new Error(`${name} is not a function`);
  return found as Handler;
}

async function invoke(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const stream = isStreaming(handler) ? new ResponseStream(response) : undefined;
  try {
    const event = await json(request);
    const context = contextOf(request);
    const deadlineAt = deadlineOf(request);
    if (stream && isStreaming(handler)) {
      await withDeadline(deadlineAt, () => handler(event, stream, context));
      if (!stream.writableEnded) throw new Error("the handler returned without ending its response stream");
    } else {
      const result = await withDeadline(deadlineAt, () => handler(event, context));
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(result ?? null));
    }
  } catch (error) {
    if (response.destroyed) return;
    console.error(error);
    if (stream?.started) return void response.socket?.destroySoon();
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    response.writeHead(200, { "content-type": "application/json", "x-amz-function-error": "Unhandled" });
    response.end(JSON.stringify({ errorType: name, errorMessage: message }));
  }
}

function deadlineOf(request: IncomingMessage): number {
  return Number(request.headers["lambda-runtime-deadline-ms"]);
}

function contextOf(request: IncomingMessage) {
  const deadlineAt = deadlineOf(request);
  const functionName = variable("AWS_LAMBDA_FUNCTION_NAME");
  return {
    awsRequestId: request.headers["lambda-runtime-aws-request-id"],
    functionName,
    functionVersion: variable("AWS_LAMBDA_FUNCTION_VERSION"),
    invokedFunctionArn: request.headers["lambda-runtime-invoked-function-arn"],
    memoryLimitInMB: variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
    logGroupName: variable("AWS_LAMBDA_LOG_GROUP_NAME"),
    logStreamName: variable("AWS_LAMBDA_LOG_STREAM_NAME"),
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, deadlineAt - Date.now()),
  };
}

function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
