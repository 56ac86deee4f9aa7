/** A streaming handler that uses the runtime's global without a framework. */
import { EventEmitter, once } from "node:events";
import type { ResponseStream } from "../lambda/response-stream.ts";
import { note } from "./notes.ts";

declare const awslambda: typeof import("../lambda/response-stream.ts").awslambda;

const waiting = new EventEmitter();

async function handle(event: unknown, response: ResponseStream): Promise<void> {
  const { rawPath } = event as { rawPath: string };
  switch (rawPath) {
    case "/writes-on": {
      const stream = awslambda.HttpResponseStream.from(response, { statusCode: 200 });
      stream.write("here");
      await once(waiting, "go-on");
      for (let megabytes = 0; megabytes < 32; megabytes++) {
        if (!stream.write(new Uint8Array(1024 ** 2))) await once(stream, "drain");
      }
      stream.end();
      await once(stream, "finish");
      return note("written to the end");
    }
    case "/go-on":
      waiting.emit("go-on");
      return void awslambda.HttpResponseStream.from(response, { statusCode: 200 }).end("{}");
    case "/no-write":
      return void awslambda.HttpResponseStream.from(response, { statusCode: 200 }).end();
    case "/empty-write": {
      const stream = awslambda.HttpResponseStream.from(response, { statusCode: 201 });
      stream.write("");
      return void stream.end();
    }
    case "/plain-stream":
      response.setContentType("text/plain");
      response.end("no prelude");
      return;
    case "/throw":
      throw new Error("thrown before the first byte");
    case "/throw-late":
      awslambda.HttpResponseStream.from(response, { statusCode: 200 }).write("beginning");
      throw new Error("thrown after the first byte");
    case "/not-ended":
      return;
    default:
      awslambda.HttpResponseStream.from(response, { statusCode: 200, headers: {} }).end("{}");
  }
}

export const handler = awslambda.streamifyResponse(handle);
