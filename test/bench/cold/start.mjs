// One cold start: loads a bundle, sends it one request, and reports the times. Plain JavaScript, so that only the
// bundle's time is measured.
import { Writable } from "node:stream";

const [, , module, path, key] = process.argv;
const began = performance.now();
let prelude;
globalThis.awslambda = {
  streamifyResponse: (handler) => handler,
  HttpResponseStream: {
    from(stream, given) {
      prelude = given;
      return stream;
    },
  },
};
const { handler } = await import(module);
const loaded = performance.now();

const body = new Writable({ write: (_chunk, _encoding, done) => done() });
const http = { method: "GET", path, sourceIp: "127.0.0.1" };
const event = {
  version: "2.0",
  rawPath: path,
  rawQueryString: "",
  headers: { host: "127.0.0.1", authorization: `Bearer ${key}` },
  requestContext: { http, domainName: "127.0.0.1", requestId: "request" },
  isBase64Encoded: false,
};
await handler(event, body, { awsRequestId: "request", getRemainingTimeInMillis: () => 30_000 });
// Since the start of the process.
const answered = performance.now();
const { user, system } = process.cpuUsage();
const cpuMs = (user + system) / 1000;
const files = globalThis.filesLoaded ?? [];
process.send({ status: prelude?.statusCode, loadMs: loaded - began, answeredMs: answered, cpuMs, files });
process.disconnect();
