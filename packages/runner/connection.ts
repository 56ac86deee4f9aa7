import type { Socket } from "node:net";
import { turnHeader } from "./protocol.ts";
import { parseReply, type Reply } from "./reply.ts";

const net = process.getBuiltinModule("node:net");

export interface ConnectionTarget {
  url: string;
  token: string;
  /** The turn's mark, sent with each request. */
  mark: string;
  requestId?: string | undefined;
  timeoutMs: number;
}

/** To one server, one request at a time. It is kept between them, and made again where it was lost. */
export interface Connection {
  /** So that a post has not to wait for it. */
  open(): void;
  /** Rejects where no reply has come, for whatever reason. */
  post(path: string, body: Buffer): Promise<Reply>;
}

/**
 * HTTP by hand, a POST and its reply: to load `node:http` and make its first request adds four or five milliseconds to
 * the fifty between a launch and the agent's first word.
 */
export function createConnection({ url, token, mark, requestId, timeoutMs }: ConnectionTarget): Connection {
  const target = new URL(url);
  const basePath = target.pathname.replace(/\/$/, "");
  let socket: Socket | undefined;
  /** Who waits for a reply. */
  let reader: Reader | undefined;
  let previous: Promise<unknown> = Promise.resolve();

  function open(): Socket {
    const opened = connect(target).setNoDelay();
    opened.on("data", (bytes) => {
      if (reader !== undefined) reader.read(bytes);
      // Nobody has asked for it.
      else lose();
    });
    // Its close follows.
    opened.on("error", () => {});
    opened.on("close", (hadError) => {
      if (socket !== opened) return;
      socket = undefined;
      reader?.end(hadError);
    });
    socket = opened;
    return opened;
  }

  function lose(): void {
    socket?.destroy();
    socket = undefined;
  }

  function send(path: string, body: Buffer): void {
    const head = [
      `POST ${basePath}${path} HTTP/1.1`,
      `host: ${target.host}`,
      `authorization: Bearer ${token}`,
      `${turnHeader}: ${mark}`,
      ...(requestId === undefined ? [] : [`x-request-id: ${requestId}`]),
      "content-type: application/json",
      `content-length: ${body.length}`,
    ];
    const current = socket ?? open();
    current.cork();
    current.write(`${head.join("\r\n")}\r\n\r\n`);
    current.write(body);
    current.uncork();
  }

  async function exchange(path: string, body: Buffer): Promise<Reply> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const reply = await new Promise<Reply>((resolve, reject) => {
        reader = createReader(resolve, reject);
        timer = setTimeout(() => reject(new Error("no answer in time")), timeoutMs);
        send(path, body);
      });
      if (!reply.keepsConnection) lose();
      return reply;
    } catch (error) {
      lose();
      throw error;
    } finally {
      reader = undefined;
      // What waits for a timer cannot be freed, and it holds the body.
      clearTimeout(timer);
    }
  }

  return {
    open() {
      if (socket === undefined) open();
    },
    post(path, body) {
      const reply = previous.then(() => exchange(path, body));
      previous = reply.catch(() => {});
      return reply;
    },
  };
}

interface Reader {
  read(bytes: Buffer): void;
  end(hadError: boolean): void;
}

function createReader(resolve: (reply: Reply) => void, reject: (error: unknown) => void): Reader {
  let received: Buffer = Buffer.alloc(0);

  function parse(isEnded: boolean): void {
    try {
      const reply = parseReply(received, isEnded);
      if (reply !== undefined) resolve(reply);
    } catch (error) {
      reject(error);
    }
  }

  return {
    read(bytes) {
      received = Buffer.concat([received, bytes]);
      parse(false);
    },
    end(hadError) {
      if (!hadError) parse(true);
      reject(new Error("the connection broke"));
    },
  };
}

function connect({ protocol, hostname, port }: URL): Socket {
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  if (protocol === "http:") return net.connect({ host, port: Number(port || 80) });
  const tls = process.getBuiltinModule("node:tls");
  const servername = net.isIP(host) === 0 ? host : "";
  return tls.connect({ host, port: Number(port || 443), servername });
}
