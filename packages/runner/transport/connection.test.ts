import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setImmediate as nextRound } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createConnection } from "./connection.ts";

const okReply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/** Every accepted connection with the text it received. Each test writes the replies itself. */
let connections: { socket: Socket; text: string }[];
let server: Server;

beforeEach(async () => {
  connections = [];
  server = createServer((socket) => {
    const connection = { socket, text: "" };
    connections.push(connection);
    socket.setEncoding("utf8").on("data", (text: string) => {
      connection.text += text;
      server.emit("request");
    });
    socket.on("error", () => {});
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});

afterEach(() => {
  for (const { socket } of connections) socket.destroy();
  server.close();
});

function setUp(timeoutMs = 20_000, requestId?: string) {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/base`;
  return createConnection({ url, token: "t0ken", mark: "task_1/2", timeoutMs, requestId });
}

/** The server's side of the newest connection, once a request has arrived. */
async function requested(): Promise<{ socket: Socket; text: string }> {
  await once(server, "request");
  const newest = connections.at(-1);
  if (newest === undefined) throw new Error("there is no connection");
  return newest;
}

async function post(connection: ReturnType<typeof setUp>, body = "{}") {
  const reply = connection.post("/path", Buffer.from(body));
  reply.catch(() => {});
  return { reply, server: await requested() };
}

test("a post carries the token, the turn, the request id and the body's length in bytes", async () => {
  const { reply, server } = await post(setUp(20_000, "request-1"), '{"é":1}');
  server.socket.write(okReply);
  expect(await reply).toEqual({ status: 200, body: "{}", retryAfter: undefined, turn: undefined });
  const [head = "", body] = server.text.split("\r\n\r\n");
  expect(body).toBe('{"é":1}');
  expect(head.split("\r\n")).toEqual([
    "POST /base/path HTTP/1.1",
    "authorization: Bearer t0ken",
    "x-concierge-turn: task_1/2",
    "x-request-id: request-1",
    "content-type: application/json",
    expect.stringMatching(/^Host: 127\.0\.0\.1:\d+$/),
    "Connection: keep-alive",
    "Content-Length: 8",
  ]);
});

test("the connection is opened before the first post and reused after it", async () => {
  const connection = setUp();
  const connected = once(server, "connection");
  await connection.open();
  await connected;
  for (let n = 0; n < 3; n++) {
    const { reply, server } = await post(connection);
    server.socket.write(okReply);
    await reply;
  }
  expect(connections.length).toBe(1);
});

test("an early connect after the first post opens no second connection", async () => {
  const connection = setUp();
  const { reply, server } = await post(connection);
  server.socket.write(okReply);
  await reply;
  await connection.open();
  const next = await post(connection);
  next.server.socket.write(okReply);
  await next.reply;
  expect(connections.length).toBe(1);
});

test("a reply has its status, headers and body, even if it arrives byte by byte in chunks", async () => {
  const { reply, server } = await post(setUp());
  const head = "HTTP/1.1 429 Too Many\r\nretry-after: 2\r\nx-concierge-turn: task_1/2\r\n";
  for (const byte of `${head}transfer-encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`) {
    server.socket.write(byte);
    await nextRound();
  }
  expect(await reply).toEqual({ status: 429, retryAfter: "2", turn: "task_1/2", body: '{"a":1}' });
});

test("a redirect is a reply and is not followed", async () => {
  const { reply, server } = await post(setUp());
  server.socket.write("HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n");
  expect(await reply).toMatchObject({ status: 302, body: "" });
});

test("concurrent posts are sent one after the other over the same connection", async () => {
  const connection = setUp();
  const first = await post(connection, "1");
  const second = connection.post("/path", Buffer.from("2"));
  await nextRound();
  expect(first.server.text).toMatch(/1$/);
  first.server.socket.write(okReply);
  await first.reply;
  const { socket, text } = await requested();
  expect([text.endsWith("2"), connections.length]).toEqual([true, 1]);
  socket.write(okReply);
  expect(await second).toMatchObject({ status: 200 });
});

test("a post that waits for another one still has its full time", async () => {
  const connection = setUp(300);
  const first = await post(connection, "1");
  const second = connection.post("/path", Buffer.from("2"));
  await expect(first.reply).rejects.toThrow("no answer in time");
  const { socket } = await requested();
  socket.write(okReply);
  expect(await second).toMatchObject({ status: 200 });
});

test.each<[string, (socket: Socket) => void]>([
  ["ends", (socket) => socket.end()],
  ["sends an unrequested reply", (socket) => socket.write(okReply)],
])("a connection that %s between two posts is replaced", async (_, disturb) => {
  const connection = setUp();
  const first = await post(connection);
  first.server.socket.write(okReply);
  await first.reply;
  const closed = once(first.server.socket, "close");
  disturb(first.server.socket);
  await closed;
  const second = await post(connection);
  second.server.socket.write(okReply.replace("200", "201"));
  expect(await second.reply).toMatchObject({ status: 201 });
  expect(connections.length).toBe(2);
});

test("a connection that breaks between two posts fails at most one of them", async () => {
  const connection = setUp();
  server.on("request", () => connections.at(-1)?.socket.write(okReply));
  const again = () => connection.post("/path", Buffer.from("{}"));
  await again();
  connections[0]?.socket.resetAndDestroy();
  expect(await again().catch(again)).toMatchObject({ status: 200 });
  expect(connections.length).toBe(2);
});

test.each<[string, (socket: Socket) => void]>([
  [
    "announces that it closes the connection",
    (socket) => socket.write("HTTP/1.1 503 Later\r\nconnection: close\r\ncontent-length: 7\r\n\r\nnot now"),
  ],
  ["ends with the connection", (socket) => socket.end("HTTP/1.1 503 Later\r\n\r\nnot now")],
])("a reply that %s counts, and the next post uses a new connection", async (_, answer) => {
  const connection = setUp();
  const first = await post(connection);
  answer(first.server.socket);
  expect(await first.reply).toMatchObject({ status: 503, body: "not now" });
  const second = await post(connection);
  second.server.socket.write(okReply);
  await second.reply;
  expect(connections.length).toBe(2);
});

test.each<[string, (socket: Socket) => void, string]>([
  ["the connection breaks", (socket) => socket.resetAndDestroy(), "ECONNRESET"],
  ["the reply is incomplete", (socket) => socket.end(okReply.slice(0, -1)), "aborted"],
  ["the reply is not HTTP", (socket) => socket.write("SSH-2.0\r\n\r\n"), "Parse Error"],
  [
    "the reply is too long",
    (socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n${"x".repeat(99_999)}`),
    "the reply is too long",
  ],
])("a post fails if %s, and the next one uses a new connection", async (_, answer, message) => {
  const connection = setUp();
  const first = await post(connection);
  answer(first.server.socket);
  await expect(first.reply).rejects.toThrow(message);
  const second = await post(connection);
  second.server.socket.write(okReply);
  expect(await second.reply).toMatchObject({ status: 200 });
  expect(connections.length).toBe(2);
});

test("a late reply is not taken for the reply to the next post", async () => {
  const connection = setUp(50);
  const first = await post(connection);
  await expect(first.reply).rejects.toThrow("no answer in time");
  first.server.socket.write(okReply);
  const second = await post(connection);
  second.server.socket.write(okReply.replace("200", "201"));
  expect(await second.reply).toMatchObject({ status: 201 });
});

test("a post fails if no server listens, even after an early connect", async () => {
  const connection = setUp();
  await new Promise((resolve) => server.close(resolve));
  await connection.open();
  await expect(connection.post("/path", Buffer.from("{}"))).rejects.toThrow("ECONNREFUSED");
});
