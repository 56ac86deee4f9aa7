import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import path from "node:path";
import type { Sandbox } from "@vercel/sandbox";
import { describe, expect, test } from "vitest";
import { compilePolicy, ruleFor } from "./network/policy.ts";
import { openService, sh, temporaryDirectory } from "./testing/api.ts";
import { createTestCertificate } from "./testing/certificate.ts";
import { askGateway, curl, networkTest, startHost, toHost } from "./testing/network.ts";

const secret = `secret-${randomUUID()}`;
const name = "allowed.example";
const withKey = { transform: [{ headers: { authorization: `Bearer ${secret}` } }] };

describe("the entry for a host", () => {
  const policy = compilePolicy({
    allow: {
      "*": [],
      "*.example": [{ forwardURL: "http://wide.example" }],
      "api.example": [],
      "api.example:8443": [withKey],
      "[::1]:4000": [],
      "LOCALHOST:4000": [],
    },
  });

  test.each([
    ["api.example", 8443, { rules: [withKey], isExact: true }],
    ["API.example", 443, { rules: [], isExact: false }],
    ["b.api.example", 443, { rules: [{ forwardURL: "http://wide.example" }], isExact: false }],
    ["example", 443, { rules: [], isExact: false }],
    ["127.0.0.1", 4000, { rules: [], isExact: true }],
    ["::1", 4000, { rules: [], isExact: true }],
    ["::1", 4001, { rules: [], isExact: false }],
  ])("%s:%i is the most specific one", (host, port, entry) => {
    expect(policy.entryFor(host, port)).toEqual(entry);
  });

  test("does not take another host for the one before it in the path", () => {
    const rules = [{ match: { path: { startsWith: "/v1/" } }, ...withKey }];
    const request = { method: "GET", headers: [] };
    expect(ruleFor(rules, { ...request, path: "/v1/models?x=/v2/" })).toBe(rules[0]);
    expect(ruleFor(rules, { ...request, path: "//evil.example/v1/models" })).toBeUndefined();
  });
});

describe("an entry for one port of this machine", () => {
  const network = { allowNamedPrivate: true };

  // The codex CLI sends its key in the header in which the runner sends its token, and both call 127.0.0.1.
  networkTest("injects nothing into requests to its other ports", async () => {
    await using model = await startHost();
    await using callback = await startHost();
    await using service = await openService({ network });
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: {
        allow: { [`127.0.0.1:${model.port}`]: [withKey], [`127.0.0.1:${callback.port}`]: [] },
      },
    });
    for (const { port } of [callback, model]) {
      const header = "-H 'authorization: Bearer own'";
      expect(await curl(sandbox, `${header} http://127.0.0.1:${port}/`)).toBe("answered GET /");
    }
    expect(callback.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer own"]);
    expect(model.requests.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${secret}`]);
  });

  networkTest("opens no other port, and none without the operator's consent", async () => {
    await using named = await startHost();
    await using other = await startHost();
    const networkPolicy = { allow: { [`127.0.0.1:${named.port}`]: [], "127.0.0.1": [], "*": [] } };
    await using service = await openService({ network });
    const sandbox = await service.create({ persistent: false, networkPolicy });
    expect(await curl(sandbox, `http://localhost:${named.port}/`)).toBe("answered GET /");
    expect(await askGateway(sandbox, "127.0.0.1", other.port)).toBe("refused");
    expect(await askGateway(sandbox, "127.0.0.1", Number(new URL(service.url).port))).toBe("refused");

    await using strict = await openService();
    const guarded = await strict.create({ persistent: false, networkPolicy });
    expect(await askGateway(guarded, "127.0.0.1", named.port)).toBe("refused");
  });

  networkTest("never opens the API itself, other loopback addresses or cloud metadata", async () => {
    await using host = await startHost({ address: "127.0.0.2" });
    await using service = await openService({ network });
    const port = Number(new URL(service.url).port);
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: {
        allow: [
          `127.0.0.1:${port}`,
          `127.0.0.2:${host.port}`,
          "169.254.169.254:80",
          `[::ffff:127.0.0.2]:${host.port}`,
        ],
      },
    });
    expect(await askGateway(sandbox, "127.0.0.1", port)).toBe("refused");
    expect(await askGateway(sandbox, "127.0.0.2", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "::ffff:127.0.0.2", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "169.254.169.254", 80)).toBe("refused");
  });

  networkTest("also makes a port of another host reachable", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [`${name}:8443`]: [withKey] } },
    });
    expect(await curl(sandbox, `http://${name}:8443/`)).toBe("answered GET /");
    expect(await curl(sandbox, `http://${name}:9443/`)).toBe("failed");
    expect(host.requests[0]?.headers).toMatchObject({
      host: `${name}:8443`,
      authorization: `Bearer ${secret}`,
    });
  });
});

describe("a private address in another form", () => {
  const forms = [
    ["IPv4-mapped", "::ffff:127.0.0.1"],
    ["NAT64", "64:ff9b::7f00:1"],
    ["local NAT64", "64:ff9b:1::7f00:1"],
    ["6to4", "2002:7f00:1::"],
    ["IPv4-compatible", "::127.0.0.1"],
    ["site-local", "fec0::1"],
    ["link-local", "fe80::1"],
    ["unique local", "fd00::1"],
    ["Teredo", "2001::7f00:1"],
    ["the benchmark network", "198.18.0.1"],
    ["carrier-grade NAT", "100.64.0.1"],
    ["this network", "0.0.0.0"],
    ["multicast", "224.0.0.1"],
  ] as const;
  networkTest("is refused, also behind a public name", async () => {
    await using service = await openService({
      network: {
        allowNamedPrivate: true,
        resolve: async (host, port) => {
          const [, address] = forms.find(([what]) => host === nameFor(what)) ?? [];
          return address === undefined ? [] : [{ address, port }];
        },
      },
    });
    const sandbox = await service.create({ persistent: false });
    for (const [what, address] of forms) {
      expect(await askGateway(sandbox, address, 80), what).toBe("refused");
      expect(await askGateway(sandbox, nameFor(what), 80), what).toBe("refused");
    }
  });

  function nameFor(what: string): string {
    return `${what.toLowerCase().replaceAll(" ", "-")}.example`;
  }
});

describe("a replaced policy", () => {
  networkTest("injects nothing into later requests of a connection that was kept alive", async () => {
    const certificate = await createTestCertificate(name);
    await using host = await startHost({ certificate });
    await using service = await openService(toHost(host.port, [certificate.authority]));
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [name]: [withKey] } },
    });
    await using client = await keepAliveClient(sandbox, `https://${name}`);
    expect(await client.get("/1")).toBe("answered GET /1");
    await sandbox.update({ networkPolicy: { allow: { [name]: [] } } });
    expect(await client.get("/2")).toBe("answered GET /2");
    await sandbox.update({ networkPolicy: { allow: { [name]: [withKey] } } });
    expect(await client.get("/3")).toBe("answered GET /3");
    await sandbox.update({ networkPolicy: "deny-all" });
    expect(await client.get("/4")).toMatch(/policy does not allow|failed/);
    expect(host.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ["/1", `Bearer ${secret}`],
      ["/2", undefined],
      ["/3", `Bearer ${secret}`],
    ]);
    // One connection as far as the policy allowed it; otherwise this test shows nothing.
    expect(await client.connections()).toBe(1);
  });

  networkTest("applies to connections that were opened before it had rules for them", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const sandbox = await service.create({ persistent: false });
    await using client = await keepAliveClient(sandbox, `http://${name}`);
    expect(await client.get("/1")).toBe("answered GET /1");
    await sandbox.update({ networkPolicy: { allow: { [name]: [withKey] } } });
    expect(await client.get("/2")).toBe("answered GET /2");
    await sandbox.update({ networkPolicy: "allow-all" });
    expect(await client.get("/3")).toBe("answered GET /3");
    expect(host.requests.map(({ headers }) => headers.authorization)).toEqual([
      undefined,
      `Bearer ${secret}`,
      undefined,
    ]);
    await sandbox.update({ networkPolicy: { allow: ["other.example"] } });
    expect(await client.get("/4")).toMatch(/policy does not allow|failed/);
    expect(host.requests).toHaveLength(3);
  });

  networkTest("cuts a request in flight that has a header which it takes back, and no other", async () => {
    const waiting: { request: IncomingMessage; response: ServerResponse }[] = [];
    await using host = await startHost({
      answer: (request, response) => void waiting.push({ request, response }),
    });
    await using service = await openService(toHost(host.port));
    const rule = (header: string) => ({ transform: [{ headers: { [header]: secret } }] });
    const [kept, taken] = ["kept.example", "taken.example"];
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [kept]: [rule("x-kept")], [taken]: [rule("x-taken")] } },
    });
    const run = (at: string) => curl(sandbox, `http://${at}/`);
    const [first, second] = [run(kept), run(taken)];
    await expect.poll(() => waiting.length, { timeout: 10_000 }).toBe(2);
    const ended = waiting.map(({ response }) => new Promise((close) => response.on("close", close)));
    await sandbox.update({ networkPolicy: { allow: { [kept]: [rule("x-kept")], [taken]: [] } } });
    expect(await second).toBe("failed");
    const cut = waiting.findIndex(({ request }) => request.headers["x-taken"] === secret);
    await ended[cut];
    waiting[1 - cut]?.response.end("answered late");
    expect(await first).toBe("answered late");
  });
});

describe("a rule for a path", () => {
  networkTest("does not apply to a path that a server could read as another one", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [name]: [{ match: { path: { startsWith: "/mine/" } }, ...withKey }] } },
    });
    const refused = ["/mine/../theirs", "/mine/%2e%2e/theirs", "/mine/..%2ftheirs", "/mine/..%5Ctheirs"];
    for (const at of refused) {
      expect(await curl(sandbox, `--path-as-is 'http://${name}${at}'`), at).toContain("does not accept");
    }
    expect(await rawRequest(sandbox, `GET http://theirs.example/mine/ HTTP/1.1`)).toContain("400");
    expect(await rawRequest(sandbox, "GET /mine/@scope%2fname?a=../b HTTP/1.1")).toContain("200");
    expect(host.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ["/mine/@scope%2fname?a=../b", `Bearer ${secret}`],
    ]);
  });
});

describe("git over the gateway", () => {
  for (const scheme of ["http", "https"] as const) {
    networkTest(`fetches and pushes over ${scheme} with a credential that it never has`, async () => {
      await using directory = await temporaryDirectory();
      const certificate = scheme === "https" ? await createTestCertificate(name) : undefined;
      await using server = await startHost({
        ...(certificate && { certificate }),
        answer: gitBackend(directory.path),
      });
      execFileSync("git", ["init", "-q", "--bare", path.join(directory.path, "mine.git")]);
      execFileSync("git", [
        "-C",
        path.join(directory.path, "mine.git"),
        "config",
        "http.receivepack",
        "true",
      ]);
      const at = certificate ? name : `127.0.0.1:${server.port}`;
      const url = `${scheme}://${at}/mine.git`;
      await using service = await openService(
        certificate ? toHost(server.port, [certificate.authority]) : { network: { allowNamedPrivate: true } },
      );
      const only = (match: object) => ({ match, ...withKey });
      const fetchRules = [
        only({ method: ["GET"], path: { exact: "/mine.git/info/refs" } }),
        only({ method: ["POST"], path: { exact: "/mine.git/git-upload-pack" } }),
      ];
      const pushRule = only({ method: ["POST"], path: { exact: "/mine.git/git-receive-pack" } });
      const sandbox = await service.create({
        persistent: false,
        networkPolicy: { allow: { [at]: fetchRules } },
      });
      const commit =
        "git -c user.name=a -c user.email=a@example.com commit -qm one && git push -q origin HEAD:main 2>&1";
      await sh(sandbox, `GIT_TERMINAL_PROMPT=0 git clone -q ${url} work 2>&1`);
      // More than git sends in one piece: it asks for permission first, and then sends chunks.
      const change = `cd work && head -c 5000000 /dev/urandom > large && git add . && (${commit} || echo refused)`;
      expect(await sh(sandbox, `export GIT_TERMINAL_PROMPT=0; ${change}`)).toContain("refused");
      await sandbox.update({ networkPolicy: { allow: { [at]: [...fetchRules, pushRule] } } });
      expect(await sh(sandbox, "cd work && GIT_TERMINAL_PROMPT=0 git push -q origin HEAD:main 2>&1")).toBe(
        "",
      );
      const pushed = execFileSync("git", [
        "-C",
        path.join(directory.path, "mine.git"),
        "log",
        "--format=%s",
        "main",
      ]);
      expect(pushed.toString()).toBe("one\n");
      await sandbox.update({ networkPolicy: { allow: { [at]: fetchRules } } });
      const again =
        "cd work && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m two";
      const push = "GIT_TERMINAL_PROMPT=0 git push -q origin HEAD:main >/dev/null 2>&1 || echo refused";
      expect(await sh(sandbox, `${again} && ${push}`)).toBe("refused");
    });
  }
});

/** Git's own backend, for requests that have the credential. */
function gitBackend(root: string) {
  return (request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.authorization !== `Bearer ${secret}`) {
      request.resume();
      return void response.writeHead(401, { "www-authenticate": "Basic" }).end();
    }
    const [pathInfo = "", query = ""] = (request.url ?? "").split("?");
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: "1",
        REMOTE_USER: "a",
        REQUEST_METHOD: request.method,
        PATH_INFO: pathInfo,
        QUERY_STRING: query,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
      stdio: ["pipe", "pipe", "ignore"],
    });
    backend.stdin.on("error", () => {});
    request.pipe(backend.stdin);
    const parts: Buffer[] = [];
    backend.stdout.on("data", (part: Buffer) => parts.push(part));
    backend.on("close", () => {
      const output = Buffer.concat(parts);
      const end = output.indexOf("\r\n\r\n");
      const lines = output.toString("latin1", 0, end).split("\r\n");
      const headers = Object.fromEntries(lines.map((line) => line.split(": ", 2) as [string, string]));
      const status = Number.parseInt(headers.Status ?? "200", 10);
      delete headers.Status;
      response.writeHead(status, headers).end(output.subarray(end + 4));
    });
  };
}

/** A program in the sandbox that sends its requests over one connection, as long as that stays open. */
async function keepAliveClient(sandbox: Sandbox, base: string) {
  const port = 3999;
  const code = `
    const { Agent, get } = require("${base.startsWith("https") ? "https" : "http"}");
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    let connections = 0;
    const create = agent.createConnection;
    agent.createConnection = function (...args) { connections += 1; return create.apply(this, args); };
    const ask = (path, reply, tries = 2) => get("${base}" + path, { agent }, (r) => {
      let text = "";
      r.on("data", (part) => (text += part)).on("end", () => reply.end(text.trim()));
    }).on("error", () => (tries > 1 ? ask(path, reply, tries - 1) : reply.end("failed")));
    require("http").createServer((q, r) => q.url === "/connections" ? r.end(String(connections)) : ask(q.url, r))
      .listen(${port}, () => console.log("up"));`;
  const command = await sandbox.runCommand({ cmd: "node", args: ["-e", code], detached: true });
  using logs = command.logs();
  for await (const { data } of logs) if (data.includes("up")) break;
  return {
    get: (at: string) => curl(sandbox, `http://127.0.0.1:${port}${at}`),
    connections: async () => Number(await curl(sandbox, `http://127.0.0.1:${port}/connections`)),
    [Symbol.asyncDispose]: () => command.kill().then(() => {}),
  };
}

async function rawRequest(sandbox: Sandbox, line: string): Promise<string> {
  const text = `${line}\r\nHost: ${name}\r\nConnection: close\r\n\r\n`;
  const code = `const s = require("net").connect(80, "${name}", () => s.write(${JSON.stringify(text)}));
    s.on("data", (d) => process.stdout.write(d)); s.on("error", (e) => console.log(e.code));`;
  return (await sandbox.runCommand("node", ["-e", code])).stdout();
}
