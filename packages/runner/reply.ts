import { turnHeader } from "./protocol.ts";

/** What is read of a reply at the most. */
const MAX_REPLY_BYTES = 64 * 1024;

export interface Reply {
  status: number;
  retryAfter: string | undefined;
  /** Which turn it says it answers. */
  turn: string | undefined;
  body: string;
  /** Another request may go over the same connection. */
  keepsConnection: boolean;
}

/**
 * The first reply in what a connection has brought so far; undefined where more has to come. Throws where it can be
 * none.
 */
export function parseReply(bytes: Buffer, isEnded: boolean): Reply | undefined {
  if (bytes.length > MAX_REPLY_BYTES) throw new Error("the reply is too long");
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const [statusLine = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const [, minor, status] = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(statusLine) ?? [];
  if (status === undefined) throw new Error("the reply is not HTTP");
  const rest = bytes.subarray(headEnd + 4);
  // Interim, as `100 Continue`: the reply comes after it.
  if (status.startsWith("1")) return parseReply(rest, isEnded);

  const headers = new Map(lines.map(toHeader));
  const body = parseBody(rest, headers, isEnded);
  if (body === undefined) return undefined;
  return {
    status: Number(status),
    retryAfter: headers.get("retry-after"),
    turn: headers.get(turnHeader),
    body: body.bytes.toString(),
    keepsConnection:
      minor === "1" && !/\bclose\b/i.test(headers.get("connection") ?? "") && body.length === rest.length,
  };
}

function toHeader(line: string): [string, string] {
  const colon = line.indexOf(":");
  if (colon < 1) throw new Error("the reply has a header that is none");
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}

interface Body {
  bytes: Buffer;
  /** Of all that it takes in the reply. */
  length: number;
}

function parseBody(rest: Buffer, headers: Map<string, string>, isEnded: boolean): Body | undefined {
  if (/\bchunked$/i.test(headers.get("transfer-encoding") ?? "")) return parseChunks(rest);
  const length = headers.get("content-length");
  if (length === undefined) return isEnded ? { bytes: rest, length: rest.length + 1 } : undefined;
  if (!/^\d+$/.test(length)) throw new Error("the reply's length is none");
  const bytes = rest.subarray(0, Number(length));
  return bytes.length === Number(length) ? { bytes, length: bytes.length } : undefined;
}

function parseChunks(rest: Buffer): Body | undefined {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = /^[0-9a-f]+/i.exec(rest.toString("latin1", at, lineEnd))?.[0];
    if (size === undefined) throw new Error("the reply has a chunk without a size");
    const start = lineEnd + 2;
    const end = start + Number.parseInt(size, 16);
    if (end === start) {
      // Behind the last one there may be more headers, up to an empty line.
      const trailerEnd = rest.indexOf("\r\n\r\n", lineEnd);
      return trailerEnd === -1 ? undefined : { bytes: Buffer.concat(parts), length: trailerEnd + 4 };
    }
    if (end + 2 > rest.length) return undefined;
    parts.push(rest.subarray(start, end));
    at = end + 2;
  }
}
