/** Response streaming of the Lambda Node.js runtime: the global `awslambda`. */
import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";

export const integrationResponseType = "application/vnd.awslambda.http-integration-response";
const streamingSymbol = Symbol.for("aws.lambda.runtime.handler.streaming");
const preludeEnd = Buffer.alloc(8);

export type StreamingHandler = (event: unknown, stream: ResponseStream, context: unknown) => Promise<unknown>;

export class ResponseStream extends Writable {
  readonly #response: ServerResponse;
  #contentType = "application/octet-stream";
  #prelude: unknown;

  constructor(response: ServerResponse) {
    super();
    this.#response = response;
    // The host reads to the end even if its client disconnects, so a close means that the host is gone.
    response.once("close", () => this.destroy());
    response.on("error", () => this.destroy());
    this.on("error", () => {});
  }

  get started(): boolean {
    return this.#response.headersSent;
  }

  setContentType(contentType: string): void {
    this.#contentType = contentType;
  }

  setPrelude(prelude: unknown): void {
    this.#contentType = integrationResponseType;
    this.#prelude = prelude;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    this.#start();
    if (chunk.length === 0 || this.#response.write(chunk)) done();
    else this.#response.once("drain", done);
  }

  /** As in the real runtime, the prelude is sent with the first write. A stream without a write has no status. */
  override _final(done: (error?: Error) => void): void {
    if (!this.started) this.#sendHead();
    this.#response.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.writableFinished) this.#response.destroy();
    done(error);
  }

  #start(): void {
    if (this.started) return;
    this.#sendHead();
    if (this.#prelude === undefined) this.#response.flushHeaders();
    else this.#response.write(Buffer.concat([Buffer.from(JSON.stringify(this.#prelude)), preludeEnd]));
  }

  #sendHead(): void {
    this.#response.writeHead(200, { "content-type": this.#contentType, "x-response-mode": "streaming" });
  }
}

export const awslambda = {
  streamifyResponse: <Handler extends StreamingHandler>(handler: Handler): Handler =>
    Object.assign(handler, { [streamingSymbol]: "response" }),
  HttpResponseStream: {
    from(stream: ResponseStream, prelude: unknown): ResponseStream {
      stream.setPrelude(prelude);
      return stream;
    },
  },
};

export function isStreaming(handler: object): handler is StreamingHandler {
  return streamingSymbol in handler;
}
