import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { createGitRemote } from "./remote.ts";

const line = (text: string) => (text.length + 4).toString(16).padStart(4, "0") + text;
const commit = "a".repeat(40);
const start = `${line("# service=git-upload-pack\n")}0000`;
const answer = `${start}${line(`${commit} refs/heads/main\n`)}0000`;

async function serve(listener: RequestListener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/repo`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

describe("readBranch", () => {
  it("returns the commit of a branch, or undefined if the remote does not have it", async () => {
    await using remote = await serve((_request, response) => response.end(answer));
    const { readBranch } = createGitRemote({ allowPrivateHosts: true });
    expect(await readBranch(remote.url, "main", undefined)).toBe(commit);
    expect(await readBranch(remote.url, "other", undefined)).toBeUndefined();
  });

  it.each([
    ["answers 500", (_request, response) => response.writeHead(500).end(answer)],
    ["redirects forever", (_request, response) => response.writeHead(302, { location: "/other" }).end()],
    ["answers with a web page", (_request, response) => response.end("<html>")],
    ["truncates its answer", (_request, response) => response.end(answer.slice(0, -4))],
    ["sends an empty answer", (_request, response) => response.end()],
  ] satisfies [string, RequestListener][])("throws if the remote %s", async (_what, listener) => {
    await using remote = await serve(listener);
    await expect(
      createGitRemote({ allowPrivateHosts: true }).readBranch(remote.url, "other", undefined),
    ).rejects.toThrow(Error);
  });

  it("reads at most 4 MB and throws if the branch is not in them", async () => {
    const many = line(`${commit} refs/heads/another-branch\n`).repeat(1000);
    let sentBytes = 0;
    await using remote = await serve((_request, response) => {
      response.write(start);
      const send = () => {
        while (!response.destroyed && response.write(many)) sentBytes += many.length;
        sentBytes += many.length;
      };
      response.on("drain", send);
      send();
    });
    await expect(
      createGitRemote({ allowPrivateHosts: true }).readBranch(remote.url, "main", undefined),
    ).rejects.toThrow("truncated");
    expect(sentBytes).toBeLessThan(64 * 1024 * 1024);
  });

  it("waits no longer than the caller's time left", async () => {
    await using remote = await serve(() => {});
    const { readBranch } = createGitRemote({ allowPrivateHosts: true, timeLeftMs: () => 50.5 });
    await expect(readBranch(remote.url, "main", undefined)).rejects.toThrow(/aborted/);
  });

  it("sends no request if no time is left", async () => {
    let requests = 0;
    await using remote = await serve((_request, response) => {
      requests += 1;
      response.end(answer);
    });
    const { readBranch } = createGitRemote({ allowPrivateHosts: true, timeLeftMs: () => 0 });
    await expect(readBranch(remote.url, "main", undefined)).rejects.toThrow("No time left");
    expect(requests).toBe(0);
  });

  it("follows a redirect, but takes the credential to no other origin", async () => {
    const credential = { username: "me", token: "secret" };
    const seen: (string | undefined)[] = [];
    await using other = await serve(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end(answer);
    });
    await using remote = await serve(({ headers, url }, response) => {
      seen.push(headers.authorization);
      const location = url?.startsWith("/repo") ? "/moved" : `${other.url}/info/refs`;
      response.writeHead(301, { location }).end();
    });
    const { readBranch } = createGitRemote({ allowPrivateHosts: true });
    expect(await readBranch(remote.url, "main", credential)).toBe(commit);
    const basic = `Basic ${Buffer.from("me:secret").toString("base64")}`;
    expect(seen).toEqual([basic, basic, undefined]);
  });

  it.each(["127.0.0.1", "[::1]", "198.18.0.1", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost"])(
    "refuses the private host %s",
    async (host) => {
      const { readBranch } = createGitRemote({ allowPrivateHosts: false });
      await expect(readBranch(`http://${host}:1/repo`, "main", undefined)).rejects.toThrow("private address");
    },
  );

  it("refuses a name that resolves to a private address", async () => {
    let requests = 0;
    await using remote = await serve((_request, response) => {
      requests += 1;
      response.end(answer);
    });
    const lookUp = ((_host: string, _options: unknown, callback: (error: null, found: object[]) => void) =>
      callback(null, [{ address: "127.0.0.1", family: 4 }])) as never;
    const { readBranch } = createGitRemote({ allowPrivateHosts: false, lookUp });
    const { port } = new URL(remote.url);
    await expect(readBranch(`http://public.example:${port}/repo`, "main", undefined)).rejects.toThrow(
      "private address",
    );
    expect(requests).toBe(0);
  });
});
