// The sandbox's network. The namespace has no way out but a unix socket, which leads to the gateway on the host. Every
// address is local here (setup.sh), so a connection to a forwarded port arrives at this process, for every target.
// A small DNS server gives each name an address of its own, by which the forwarder knows the name again.
// Nothing here is trusted: the gateway decides. `../../network/gateway.ts` is the other side.
import { createSocket } from "node:dgram";
import { connect, createServer } from "node:net";

const gatewayPath = "/run/sandbox-network/gateway";
// Programs in a sandbox cannot take these: they are claimed before the first command.
const standardPorts = [22, 80, 443];
const accepted = 1;
const typeA = 1;
const notFound = 3;
const serverFailure = 2;
const firstAddress = (198 << 24) | (18 << 16) | 1;
const maxNames = (1 << 17) - 2;
const ttlSeconds = 60;

const addressOf = new Map();
const nameOf = new Map();
const forwarded = new Set();

export async function openNetwork() {
  await Promise.all([openDns(), ...standardPorts.map((port) => listen({ port }))]);
}

/** Forwards these ports, of loopback or of all other addresses. A port that a program already uses stays its own. */
export function forwardPorts({ where, ports }) {
  const opening = ports.map(async (port) => {
    const key = `${where}:${port}`;
    if (forwarded.has(key)) return;
    forwarded.add(key);
    await listen(where === "loopback" ? { port, host: "127.0.0.1" } : { port }).catch(() =>
      forwarded.delete(key),
    );
  });
  return { until: Promise.all(opening) };
}

/** Connects a port of this sandbox to the gateway, which asked for it. */
export function dial({ port, dialId }) {
  const target = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  const failed = () => join(target, { kind: "dialed", dialId, failed: true });
  target.once("error", failed);
  target.once("connect", () => {
    target.off("error", failed);
    join(target, { kind: "dialed", dialId });
  });
}

/** Without Nagle: a response in two pieces would wait for the delayed acknowledgement of the first, 40 ms each. */
function listen(where) {
  const { promise, resolve, reject } = Promise.withResolvers();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
    const address = (client.localAddress ?? "").replace(/^::ffff:/, "");
    join(client, { kind: "connect", host: nameOf.get(address) ?? address, port: client.localPort });
  });
  server.on("error", reject);
  server.listen(where, resolve);
  return promise;
}

/** Links the connection to the gateway, or resets it if the gateway refuses. */
function join(client, request) {
  const gateway = connect({ path: gatewayPath, allowHalfOpen: true });
  const refuse = () => client.resetAndDestroy();
  client.on("error", () => gateway.destroy());
  gateway.on("error", refuse);
  gateway.once("end", refuse);
  gateway.once("data", (chunk) => {
    gateway.off("end", refuse);
    gateway.pause();
    if (chunk[0] !== accepted) return refuse();
    if (chunk.length > 1) gateway.unshift(chunk.subarray(1));
    link(client, gateway);
    link(gateway, client);
  });
  gateway.write(`${JSON.stringify(request)}\n`);
}

function link(from, to) {
  from.on("error", () => to.destroy());
  from.on("close", () => {
    if (!from.readableEnded || !from.writableFinished) to.destroy();
  });
  from.pipe(to);
}

async function openDns() {
  const { promise, resolve, reject } = Promise.withResolvers();
  const socket = createSocket("udp4", (query, from) => {
    answer(query)
      .then((reply) => reply && socket.send(reply, from.port, from.address))
      .catch(() => {});
  });
  socket.on("error", reject);
  socket.bind(53, "127.0.0.1", resolve);
  return promise;
}

async function answer(query) {
  const question = readQuestion(query);
  if (!question) return undefined;
  if (question.type !== typeA) return reply(query, question, 0);
  const known = addressOf.get(question.name);
  if (known) return reply(query, question, 0, known);
  if (!(await resolves(question.name))) return reply(query, question, notFound);
  const address = addressFor(question.name);
  return address ? reply(query, question, 0, address) : reply(query, question, serverFailure);
}

/** Whether the gateway lets this sandbox reach the name, and the host can resolve it. */
function resolves(name) {
  const { promise, resolve } = Promise.withResolvers();
  const gateway = connect(gatewayPath);
  gateway.once("data", (chunk) => {
    resolve(chunk[0] === accepted);
    gateway.destroy();
  });
  gateway.once("error", () => resolve(false));
  gateway.once("close", () => resolve(false));
  gateway.write(`${JSON.stringify({ kind: "resolve", host: name })}\n`);
  return promise;
}

function addressFor(name) {
  const known = addressOf.get(name);
  if (known || addressOf.size >= maxNames) return known;
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE((firstAddress + addressOf.size) >>> 0);
  addressOf.set(name, bytes);
  nameOf.set(bytes.join("."), name);
  return bytes;
}

/** The first question of a query. Undefined if it is not a query or is malformed. */
function readQuestion(query) {
  if (query.length < 17 || query[2] & 0x80 || query.readUInt16BE(4) !== 1) return undefined;
  const labels = [];
  let at = 12;
  while (at < query.length && query[at] !== 0) {
    const length = query[at];
    if (length > 63) return undefined;
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  if (at + 5 > query.length) return undefined;
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function reply(query, { end }, code, address) {
  const head = Buffer.from(query.subarray(0, end));
  // A response, recursion desired as asked, recursion available.
  head[2] = 0x80 | (query[2] & 0x01);
  head[3] = 0x80 | code;
  head.writeUInt16BE(address ? 1 : 0, 6);
  head.writeUInt32BE(0, 8);
  if (!address) return head;
  const record = Buffer.alloc(12);
  record.writeUInt16BE(0xc00c, 0);
  record.writeUInt16BE(typeA, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(ttlSeconds, 6);
  record.writeUInt16BE(4, 10);
  return Buffer.concat([head, record, address]);
}
