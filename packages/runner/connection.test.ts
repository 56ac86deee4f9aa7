import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createConnection } from "./connection.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/** Every connection that was made, with all it has brought; what is said to it is the test's. */
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

/** The server's side of the newest connection, once a request has come over it. */
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

test("a post says which request its turn was begun by, where that is known", async () => {
  const { reply, server: said } = await post(setUp(20_000, "request-1"));
  expect(said.text).toContain("\r\nx-request-id: request-1\r\n");
  said.socket.write(OK);
  await reply;
  const { server: unsaid } = await post(setUp());
  expect(unsaid.text).not.toContain("x-request-id");
});

test("a post is one request, with the token and the body's length in bytes", async () => {
  const { reply, server } = await post(setUp(), '{"é":1}');
  server.socket.write(OK);
  expect(await reply).toMatchObject({ status: 200, body: "{}" });
  const [head = "", body] = server.text.split("\r\n\r\n");
  expect(body).toBe('{"é":1}');
  expect(head.split("\r\n")).toEqual([
    "POST /base/path HTTP/1.1",
    expect.stringMatching(/^host: 127\.0\.0\.1:\d+$/),
    "authorization: Bearer t0ken",
    "x-concierge-turn: task_1/2",
    "content-type: application/json",
    "content-length: 8",
  ]);
});

test("the connection is there before the first post, and is kept after it", async () => {
  const connection = setUp();
  connection.open();
  await once(server, "connection");
  for (let n = 0; n < 3; n++) {
    const { reply, server } = await post(connection);
    server.socket.write(OK);
    await reply;
  }
  expect(connections.length).toBe(1);
});

test("a reply may come byte by byte", async () => {
  const { reply, server } = await post(setUp());
  for (const byte of OK) {
    server.socket.write(byte);
    await new Promise(setImmediate);
  }
  expect(await reply).toMatchObject({ status: 200, body: "{}" });
});

test("posts that are made at the same time are sent one after the other", async () => {
  const connection = setUp();
  const first = await post(connection, "1");
  const second = connection.post("/path", Buffer.from("2"));
  await new Promise(setImmediate);
  expect(first.server.text).toMatch(/1$/);
  first.server.socket.write(OK);
  await first.reply;
  const { socket, text } = await requested();
  expect([text.endsWith("2"), connections.length]).toEqual([true, 1]);
  socket.write(OK);
  expect(await second).toMatchObject({ status: 200 });
});

test.each<[string, (socket: Socket) => void]>([
  ["ends", (socket) => socket.end()],
  ["brings what nobody asked for", (socket) => socket.write(OK)],
])("a connection that %s between two posts is made again", async (_, spoil) => {
  const connection = setUp();
  const first = await post(connection);
  first.server.socket.write(OK);
  await first.reply;
  const closed = once(first.server.socket, "close");
  spoil(first.server.socket);
  await closed;
  const second = await post(connection);
  second.server.socket.write(OK);
  expect(await second.reply).toMatchObject({ status: 200 });
  expect(connections.length).toBe(2);
});

test("a connection that breaks between two posts costs one of them at the most", async () => {
  const connection = setUp();
  server.on("request", () => connections.at(-1)?.socket.write(OK));
  const again = () => connection.post("/path", Buffer.from("{}"));
  await again();
  connections[0]?.socket.resetAndDestroy();
  expect(await again().catch(again)).toMatchObject({ status: 200 });
  expect(connections.length).toBe(2);
});

test.each<[string, (socket: Socket) => void]>([
  [
    "is to be closed",
    (socket) => socket.write("HTTP/1.1 503 Later\r\nconnection: close\r\ncontent-length: 7\r\n\r\nnot now"),
  ],
  ["is closed", (socket) => socket.end("HTTP/1.1 503 Later\r\n\r\nnot now")],
])("a reply after which the connection %s is one, and the next post goes over another", async (_, answer) => {
  const connection = setUp();
  const first = await post(connection);
  answer(first.server.socket);
  expect(await first.reply).toMatchObject({ status: 503, body: "not now" });
  const second = await post(connection);
  second.server.socket.write(OK);
  await second.reply;
  expect(connections.length).toBe(2);
});

test.each<[string, (socket: Socket) => void, string]>([
  ["the connection breaks before it", (socket) => socket.resetAndDestroy(), "broke"],
  ["the connection ends within it", (socket) => socket.end(OK.slice(0, -1)), "broke"],
  ["it is another protocol's", (socket) => socket.write("SSH-2.0\r\n\r\n"), "not HTTP"],
])(
  "there is no reply where %s, and the next post goes over another connection",
  async (_, spoil, message) => {
    const connection = setUp();
    const first = await post(connection);
    spoil(first.server.socket);
    await expect(first.reply).rejects.toThrow(message);
    const second = await post(connection);
    second.server.socket.write(OK);
    expect(await second.reply).toMatchObject({ status: 200 });
  },
);

test("a reply that is late is none, and is not taken for the next one's", async () => {
  const connection = setUp(50);
  const first = await post(connection);
  await expect(first.reply).rejects.toThrow("no answer in time");
  first.server.socket.write(OK);
  const second = await post(connection);
  second.server.socket.write(OK.replace("200", "201"));
  expect(await second.reply).toMatchObject({ status: 201 });
});

test("where nobody listens there is no reply, also with a connection that was to be there before", async () => {
  const connection = setUp();
  await new Promise((resolve) => server.close(resolve));
  connection.open();
  await expect(connection.post("/path", Buffer.from("{}"))).rejects.toThrow("broke");
});
