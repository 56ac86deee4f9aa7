import type { Agent, IncomingMessage, RequestOptions } from "node:http";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { requestIdHeader, traceHeaders, turnHeader } from "@concierge/protocol";

/** A longer reply is an error. The control plane's are far shorter. */
const replyMaxBytes = 64 * 1024;

export interface ConnectionTarget {
  url: string;
  token: string;
  /** The value of `turnHeader`. */
  mark: string;
  requestId?: string | undefined;
  traceparent?: string | undefined;
  timeoutMs: number;
}

export interface Reply {
  status: number;
  retryAfter: string | undefined;
  /** The turn that the reply names. */
  turn: string | undefined;
  body: string;
}

/** One kept-alive connection to the control plane, which carries one post at a time. */
export interface Connection {
  /** Connects ahead of the first post, so that it does not wait for the handshake. Call it at most once. */
  open(): Promise<void>;
  /** Rejects if no complete reply arrives within `timeoutMs`. Never follows a redirect. */
  post(path: string, body: Buffer): Promise<Reply>;
}

export function createConnection(target: ConnectionTarget): Connection {
  const { token, mark, requestId, traceparent, timeoutMs } = target;
  const { protocol, hostname, port, pathname } = new URL(target.url);
  const isTls = protocol === "https:";
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const address = {
    host,
    port: Number(port || (isTls ? 443 : 80)),
    ...(isTls && { servername: isIP(host) === 0 ? host : "" }),
  };
  const headers = {
    authorization: `Bearer ${token}`,
    [turnHeader]: mark,
    ...(requestId !== undefined && { [requestIdHeader]: requestId }),
    ...(traceparent !== undefined && traceHeaders(traceparent, Date.now())),
    "content-type": "application/json",
  };
  let loaded: ReturnType<typeof load> | undefined;

  /** HTTP is loaded on first use, so that it does not delay the start of the agent. */
  async function load() {
    const { Agent, request } = await (isTls ? import("node:https") : import("node:http"));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    return { request, agent, connectEarly: useEarlySocket(agent, address) };
  }

  return {
    async open() {
      loaded ??= load();
      (await loaded).connectEarly();
    },
    async post(path, body) {
      loaded ??= load();
      const { request, agent } = await loaded;
      const options = {
        ...address,
        agent,
        method: "POST",
        path: `${pathname.replace(/\/$/, "")}${path}`,
        headers,
      };
      return exchange(request, options, body, timeoutMs);
    },
  };
}

/** Returns a function that connects ahead of the agent's first request. It does nothing after that. */
function useEarlySocket(agent: Agent, address: RequestOptions): () => void {
  const create = agent.createConnection.bind(agent);
  let hasConnected = false;
  let early: Duplex | null | undefined;
  agent.createConnection = (options, callback) => {
    const socket = early && !early.destroyed ? early : create(options, callback);
    early = undefined;
    hasConnected = true;
    return socket;
  };
  return () => {
    // A failure shows again when a post connects.
    if (!hasConnected) early = create(address)?.on("error", () => {});
  };
}

function exchange(
  request: typeof import("node:http").request,
  options: RequestOptions,
  body: Buffer,
  timeoutMs: number,
): Promise<Reply> {
  let timer: NodeJS.Timeout | undefined;
  const reply = new Promise<Reply>((resolve, reject) => {
    const outgoing = request(options, (response) => readReply(response).then(resolve, reject));
    outgoing.on("error", reject);
    // Starts with the socket: a post that waits for another one still has its full time.
    outgoing.once("socket", () => {
      timer = setTimeout(() => outgoing.destroy(new Error("no answer in time")), timeoutMs);
    });
    outgoing.end(body);
  });
  // A pending timer keeps the body in memory.
  return reply.finally(() => clearTimeout(timer));
}

async function readReply(response: IncomingMessage): Promise<Reply> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > replyMaxBytes) throw new Error("the reply is too long");
    parts.push(part);
  }
  const { statusCode = 0, headers } = response;
  return {
    status: statusCode,
    retryAfter: headers["retry-after"],
    turn: headers[turnHeader]?.toString(),
    body: Buffer.concat(parts).toString(),
  };
}
