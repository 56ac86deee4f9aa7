import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWebhooks } from "./index.ts";

const secret = `whsec_${Buffer.from("a secret of thirty-two bytes....").toString("base64")}`;
const event = { id: "task_1-1", at: Date.now(), secret, body: JSON.stringify({ type: "task.succeeded" }) };

let server: Server;
let url: string;
let received: { headers: IncomingMessage["headers"]; body: string }[];
let respond: (path: string) => { status: number; location?: string } | undefined;

beforeEach(async () => {
  received = [];
  respond = () => ({ status: 204 });
  server = createServer((request, response) => {
    void text(request).then((body) => {
      received.push({ headers: request.headers, body });
      const reply = respond(request.url ?? "");
      if (!reply) return;
      response.writeHead(reply.status, reply.location ? { location: reply.location } : {});
      response.end("ignored");
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const local = createWebhooks({ allowPrivateHosts: true, timeoutMs: 500 });

describe("a webhook", () => {
  it("has a signature that the Standard Webhooks library verifies", async () => {
    expect(await local.send({ url, ...event })).toEqual({ kind: "delivered" });
    const [{ headers, body } = { headers: {}, body: "" }] = received;
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toEqual({
      type: "task.succeeded",
    });
    expect(() => new Webhook(secret).verify(`${body} `, headers as Record<string, string>)).toThrow();
    expect(headers["webhook-id"]).toBe(event.id);
  });

  it("is signed with every secret, so that receivers with the old one still accept it", async () => {
    const old = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    await local.send({ url, ...event, otherSecrets: [old] });
    const [{ headers, body } = { headers: {}, body: "" }] = received;
    for (const one of [secret, old])
      expect(new Webhook(one).verify(body, headers as Record<string, string>)).toEqual({
        type: "task.succeeded",
      });
  });

  it.each([500, 503, 404, 429])("fails, and can be retried, if the answer is %d", async (status) => {
    respond = () => ({ status });
    expect(await local.send({ url, ...event })).toMatchObject({ kind: "failed" });
  });

  it("is refused for good if the answer is 410", async () => {
    respond = () => ({ status: 410 });
    expect(await local.send({ url, ...event })).toMatchObject({ kind: "refused" });
  });

  it("does not follow redirects", async () => {
    respond = (path) => (path === "/hook" ? { status: 302, location: "/elsewhere" } : { status: 204 });
    expect(await local.send({ url, ...event })).toMatchObject({
      kind: "failed",
      detail: expect.stringContaining("302"),
    });
    expect(received).toHaveLength(1);
  });

  it("fails if the receiver hangs or is down", async () => {
    respond = () => undefined;
    expect(await local.send({ url, ...event })).toMatchObject({ kind: "failed" });
    expect(await local.send({ url: "http://127.0.0.1:1/", ...event })).toMatchObject({
      kind: "failed",
    });
  });
});

describe("a private address", () => {
  const resolving = (...addresses: string[]) =>
    createWebhooks({
      allowPrivateHosts: false,
      timeoutMs: 500,
      lookUp: ((_host: string, _options: unknown, callback: (error: null, found: object[]) => void) =>
        callback(
          null,
          addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
        )) as never,
    });

  it("is refused if the URL contains it, in any notation", async () => {
    const port = new URL(url).port;
    for (const host of [
      "127.0.0.1",
      "[::1]",
      "2130706433",
      "0x7f.1",
      "[::ffff:127.0.0.1]",
      "169.254.169.254",
      "10.1.2.3",
    ]) {
      const outcome = await resolving().send({ url: `http://${host}:${port}/hook`, ...event });
      expect(outcome).toMatchObject({ kind: "refused", detail: expect.stringContaining("private") });
    }
    expect(received).toEqual([]);
  });

  it.each([["127.0.0.1"], ["192.168.1.1"], ["fd00::1"], ["93.184.216.34", "10.0.0.1"]])(
    "is refused if the name resolves to it: %s %s",
    async (...addresses) => {
      const port = new URL(url).port;
      const outcome = await resolving(...addresses).send({
        url: `http://innocent.example:${port}/hook`,
        ...event,
      });
      expect(outcome).toMatchObject({ kind: "refused" });
      expect(received).toEqual([]);
    },
  );
});
