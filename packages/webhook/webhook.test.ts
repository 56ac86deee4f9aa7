import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isPublic } from "./address.ts";
import { createWebhooks } from "./index.ts";

const secret = `whsec_${Buffer.from("a secret of thirty-two bytes....").toString("base64")}`;
const event = { id: "task_1-1", at: Date.now(), secret, body: JSON.stringify({ type: "task.succeeded" }) };

let server: Server;
let url: string;
let heard: { headers: IncomingMessage["headers"]; body: string }[];
let answer: (path: string) => { status: number; location?: string } | undefined;

beforeEach(async () => {
  heard = [];
  answer = () => ({ status: 204 });
  server = createServer((request, response) => {
    void text(request).then((body) => {
      heard.push({ headers: request.headers, body });
      const given = answer(request.url ?? "");
      if (!given) return;
      response.writeHead(given.status, given.location ? { location: given.location } : {});
      response.end("whatever");
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const onThisMachine = createWebhooks({ allowPrivateHosts: true, timeoutMs: 500 });

describe("a webhook", () => {
  it("is signed as Standard Webhooks says, so that any receiver's library can tell", async () => {
    expect(await onThisMachine.send({ url, ...event })).toEqual({ kind: "delivered" });
    const [{ headers, body } = { headers: {}, body: "" }] = heard;
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toEqual({
      type: "task.succeeded",
    });
    expect(() => new Webhook(secret).verify(`${body} `, headers as Record<string, string>)).toThrow();
    expect(headers["webhook-id"]).toBe(event.id);
  });

  it.each([500, 503, 404, 429])(
    "that is answered with %d has failed, and may be tried again",
    async (status) => {
      answer = () => ({ status });
      expect(await onThisMachine.send({ url, ...event })).toMatchObject({ kind: "failed" });
    },
  );

  it("that is answered with 410 is not wanted any more", async () => {
    answer = () => ({ status: 410 });
    expect(await onThisMachine.send({ url, ...event })).toMatchObject({ kind: "refused" });
  });

  it("follows no redirect", async () => {
    answer = (path) => (path === "/hook" ? { status: 302, location: "/elsewhere" } : { status: 204 });
    expect(await onThisMachine.send({ url, ...event })).toMatchObject({
      kind: "failed",
      detail: expect.stringContaining("302"),
    });
    expect(heard).toHaveLength(1);
  });

  it("does not wait for a receiver that hangs, and bears one that is not there", async () => {
    answer = () => undefined;
    expect(await onThisMachine.send({ url, ...event })).toMatchObject({ kind: "failed" });
    expect(await onThisMachine.send({ url: "http://127.0.0.1:1/", ...event })).toMatchObject({
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

  it("is refused where the URL names it, however it is written", async () => {
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
    expect(heard).toEqual([]);
  });

  it.each([["127.0.0.1"], ["192.168.1.1"], ["fd00::1"], ["93.184.216.34", "10.0.0.1"]])(
    "is refused where a name leads to it: %s %s",
    async (...addresses) => {
      const port = new URL(url).port;
      const outcome = await resolving(...addresses).send({
        url: `http://innocent.example:${port}/hook`,
        ...event,
      });
      expect(outcome).toMatchObject({ kind: "refused" });
      expect(heard).toEqual([]);
    },
  );

  it.each([
    ["93.184.216.34", true],
    ["2606:2800:220:1:248:1893:25c8:1946", true],
    ["127.0.0.1", false],
    ["0.0.0.0", false],
    ["100.64.0.1", false],
    ["169.254.169.254", false],
    ["172.16.0.1", false],
    ["::", false],
    ["::ffff:10.0.0.1", false],
    ["fe80::1", false],
    ["64:ff9b::7f00:1", false],
    ["nonsense", false],
  ])("%s is public: %s", (address, expected) => {
    expect(isPublic(address)).toBe(expected);
  });
});
