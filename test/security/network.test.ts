import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Concierge, startConcierge } from "../testing/stack.ts";

// A task runs the user's own shell. These are the ways by which it could reach the tasks of others.

let concierge: Concierge;

beforeAll(async () => {
  concierge = await startConcierge();
}, 60_000);

afterAll(() => concierge[Symbol.asyncDispose]());

/** What a task prints. */
async function printed(script: string, at = concierge): Promise<string> {
  const { id } = await at.client.start(script);
  const { status } = await at.client.ended(id);
  expect(status).toBe("succeeded");
  return (await at.client.request("GET", `/v1/tasks/${id}/output?turn=1`)).text();
}

const attempt = (url: string, headers = "") =>
  `curl -sS -m 5 ${headers} ${url} >/tmp/answer 2>/dev/null && echo "REACHED $(head -c 300 /tmp/answer)" || echo "no answer"`;

describe("a task of one user", () => {
  it("finds no port of the host in its network namespace's sockets", async () => {
    const port = Number(new URL(concierge.endpoints.sandbox ?? "").port);
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    expect(await printed(`grep -c ':${hex} ' /proc/net/tcp || true`)).toMatch(/^0$/m);
  });

  it("does not reach the sandbox API or its control routes, even with the right tokens", async () => {
    const { sandbox = "" } = concierge.endpoints;
    for (const [path, token] of [
      ["/api/v2/sandboxes?project=local", concierge.sandboxToken],
      ["/_control/stats", concierge.apiKey],
    ]) {
      for (const host of ["127.0.0.2", "127.0.0.1", "localhost"]) {
        const { port } = new URL(sandbox);
        const output = await printed(
          attempt(`http://${host}:${port}${path}`, `-H 'authorization: Bearer ${token}'`),
        );
        expect(output, `${host}${path}`).toContain("no answer");
      }
    }
  });

  it("does not reach the engines", async () => {
    for (const url of [concierge.endpoints.dynamodb, concierge.endpoints.sqs]) {
      expect(await printed(attempt(url)), url).toContain("no answer");
      expect(await printed(attempt(url.replace("127.0.0.2", "127.0.0.1"))), url).toContain("no answer");
    }
  });

  it("does not reach a server in another sandbox", async () => {
    const serve = `node -e 'require("http").createServer((q, r) => r.end("theirs")).listen(4567)' >/dev/null 2>&1 & sleep 1; ${attempt("http://127.0.0.1:4567/")}; sleep 15`;
    const { id } = await concierge.client.start(serve, { sessionKey: "theirs" });
    await expect
      .poll(async () => (await concierge.client.request("GET", `/v1/tasks/${id}/output?turn=1`)).text(), {
        timeout: 10_000,
      })
      .toContain("REACHED theirs");
    expect(await printed(attempt("http://127.0.0.1:4567/"))).toContain("no answer");
  });
});

describe("without private hosts", () => {
  it("a task reaches Concierge's callback address and no other service on loopback", async () => {
    const server = createServer((_request, response) => response.end("private"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await using strict = await startConcierge({ env: { CONCIERGE_ALLOW_PRIVATE_HOSTS: "false" } });
    // That the task succeeds shows that the runner's callbacks arrive.
    expect(await printed(attempt(`http://127.0.0.1:${port}/`), strict)).toContain("no answer");
    expect(await printed(attempt(`${strict.url}/healthz`), strict)).toContain("REACHED");
    server.close();
  });
});

it("the sandbox API refuses any other token than the stack's own", async () => {
  const at = `${concierge.endpoints.sandbox}/api/v2/sandboxes?project=local`;
  for (const token of ["local", "x", concierge.apiKey]) {
    expect((await fetch(at, { headers: { authorization: `Bearer ${token}` } })).status).toBe(403);
  }
});
