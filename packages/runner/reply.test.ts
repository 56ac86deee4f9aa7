import { expect, test } from "vitest";
import { parseReply } from "./reply.ts";

const wire = (...lines: string[]) => lines.join("\r\n");

const chunked = wire(
  "HTTP/1.1 200 OK",
  "Transfer-Encoding: chunked",
  "",
  "5",
  '{"é"',
  "2;x=1",
  ":1",
  "1",
  "}",
  "0",
  "",
  "",
);
const sized = wire("HTTP/1.1 429 Too Many", "retry-after: 2", "Content-Length: 3", "", "abc");

test.each([
  ["with a length", sized, { status: 429, retryAfter: "2", body: "abc", keepsConnection: true }],
  ["without a reason", wire("HTTP/1.1 200", "content-length: 0", "", ""), { status: 200, body: "" }],
  ["in chunks", chunked, { status: 200, body: '{"é":1}', keepsConnection: true }],
  [
    "in chunks, with more headers behind them",
    wire("HTTP/1.1 200 OK", "transfer-encoding: gzip, chunked", "", "1", "a", "0", "sum: 1", "", ""),
    { body: "a", keepsConnection: true },
  ],
  [
    "after one that is not the last word",
    wire("HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "link: x", "", sized),
    { status: 429, body: "abc" },
  ],
  [
    "with a connection that is closed",
    wire("HTTP/1.1 200 OK", "connection: Close", "content-length: 1", "", "a"),
    { body: "a", keepsConnection: false },
  ],
  [
    "of an old server",
    wire("HTTP/1.0 200 OK", "content-length: 1", "", "a"),
    { body: "a", keepsConnection: false },
  ],
  ["with more behind it than was asked for", `${sized}HTTP`, { body: "abc", keepsConnection: false }],
])("a reply %s is read", (_, text, expected) => {
  expect(parseReply(Buffer.from(text), false)).toMatchObject(expected);
});

test.each([
  ["with a length", sized],
  ["in chunks", chunked],
])("a reply %s is not there before its last byte", (_, text) => {
  const bytes = Buffer.from(text);
  for (let length = 0; length < bytes.length; length++) {
    expect(parseReply(bytes.subarray(0, length), false)).toBeUndefined();
    expect(parseReply(bytes.subarray(0, length), true)).toBeUndefined();
  }
});

test("a reply without a length is what has come when the connection ends", () => {
  const bytes = Buffer.from(wire("HTTP/1.1 200 OK", "", "abc"));
  expect(parseReply(bytes, false)).toBeUndefined();
  expect(parseReply(bytes, true)).toMatchObject({ body: "abc", keepsConnection: false });
});

test.each([
  ["is another protocol's", wire("SSH-2.0-x", "", ""), "not HTTP"],
  ["has no header where one belongs", wire("HTTP/1.1 200 OK", "oops", "", ""), "a header"],
  ["has a length that is none", wire("HTTP/1.1 200 OK", "content-length: -1", "", ""), "length"],
  ["has a chunk without a size", wire("HTTP/1.1 200 OK", "transfer-encoding: chunked", "", "x", ""), "size"],
  ["has no end", "x".repeat(64 * 1024 + 1), "too long"],
])("what %s is refused", (_, text, message) => {
  expect(() => parseReply(Buffer.from(text), false)).toThrow(message);
});
