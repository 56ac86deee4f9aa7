/** Checks each request in front of an engine's HTTP server and answers those that are not allowed. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { authorize, type Principals, type Verdict } from "./access.ts";

export interface GuardOptions {
  principals: Principals;
  /** Logs the first use of each permission. */
  trace: boolean;
}

export function guard(server: Server, { principals, trace }: GuardOptions): void {
  const [serve] = server.listeners("request") as RequestListener[];
  if (!serve) throw new Error("the engine has no request listener");
  const used = new Set<string>();
  server.removeAllListeners("request");
  server.on("request", (request, response) => {
    check(request, response).catch(() => request.destroy());
  });

  async function check(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authorization = "", "x-amz-target": target = "" } = request.headers;
    const [, accessKeyId = ""] = /Credential=([^/]+)\//.exec(authorization) ?? [];
    const mayAll = principals[accessKeyId]?.allowed === "all";
    const body = mayAll ? {} : JSON.parse((await peek(request)).toString() || "{}");
    const verdict = authorize(principals, accessKeyId, String(target), body);
    if (!verdict.allowed) return refuse(response, verdict);
    if (trace) note(verdict);
    serve?.(request, response);
  }

  function note({ principal, call }: Extract<Verdict, { allowed: true }>): void {
    if (!call) return;
    const line = `uses: ${principal} ${call.action} ${call.resource}`;
    if (used.has(line)) return;
    used.add(line);
    console.log(line);
  }
}

function refuse(response: ServerResponse, { type, message }: Extract<Verdict, { allowed: false }>): void {
  console.error(`refused: ${message}`);
  const answer = JSON.stringify({ __type: `com.amazon.coral.service#${type}`, message, Message: message });
  response.writeHead(400, { "content-type": "application/x-amz-json-1.0" }).end(answer);
}

/** Reads the body and puts it back, so that the engine can read it again. */
function peek(request: IncomingMessage): Promise<Buffer> {
  const sizeBytes = Number(request.headers["content-length"] ?? 0);
  if (sizeBytes === 0) return Promise.resolve(Buffer.alloc(0));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let readBytes = 0;
    request.on("readable", read);
    request.once("error", reject);
    request.once("close", reject);

    function read(): void {
      while (readBytes < sizeBytes) {
        const chunk: Buffer | null = request.read();
        if (chunk === null) return;
        chunks.push(chunk);
        readBytes += chunk.length;
      }
      request.off("readable", read).off("error", reject).off("close", reject);
      const body = Buffer.concat(chunks);
      request.unshift(body);
      resolve(body);
    }
  });
}
