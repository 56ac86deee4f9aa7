import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { isolationTest, openService, sh } from "./testing/api.ts";
import { createTestCertificate } from "./testing/certificate.ts";
import { askGateway, curl, networkTest, serve, startHost, to, toHost } from "./testing/network.ts";

const secret = `secret-${randomUUID()}`;
const name = "allowed.example";

describe("what a sandbox cannot reach", () => {
  networkTest("a service on the host's loopback", async () => {
    await using host = await startHost();
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    for (const target of ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"]) {
      expect(await curl(sandbox, `http://${target}:${host.port}/`), target).toBe("failed");
    }
    expect(host.requests).toEqual([]);
  });

  networkTest(
    "the sandbox API and its control routes, even if every private address is allowed",
    async () => {
      await using service = await openService({ network: { allowPrivate: "all" } });
      const sandbox = await service.create({ persistent: false });
      const { port } = new URL(service.url);
      for (const target of ["127.0.0.1", "localhost", "0.0.0.0", "127.0.0.2"]) {
        for (const path of ["/api/v2/sandboxes", "/_control/stats"]) {
          const header = "-H 'authorization: Bearer token'";
          expect(await curl(sandbox, `${header} http://${target}:${port}${path}`), target).toBe("failed");
        }
        // A program can also talk to the gateway itself.
        expect(await askGateway(sandbox, target, Number(port)), target).toBe("refused");
      }
    },
  );

  networkTest("services on other loopback addresses, even if every private address is allowed", async () => {
    await using host = await startHost({ address: "127.0.0.2" });
    await using service = await openService({
      network: { allowPrivate: "all", resolve: to("127.0.0.2") },
    });
    const sandbox = await service.create({ persistent: false });
    expect(await curl(sandbox, `http://127.0.0.2:${host.port}/`)).toBe("failed");
    expect(await askGateway(sandbox, "127.0.0.2", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "::ffff:127.0.0.2", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "0:0:0:0:0:ffff:7f00:2", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "2130706434", host.port)).toBe("refused");
    expect(await askGateway(sandbox, "named.example", host.port)).toBe("refused");
  });

  networkTest("another sandbox's ports", async () => {
    await using service = await openService({ network: { allowPrivate: "all" } });
    const one = await service.create({ persistent: false, ports: [4321] });
    const two = await service.create({ persistent: false });
    await serve(one, 4321);
    expect(await curl(one, "http://127.0.0.1:4321/")).toBe("served inside");
    expect(await curl(two, "http://127.0.0.1:4321/")).toBe("failed");
    expect(await curl(two, one.routes[0]?.url ?? "")).toBe("failed");
  });

  networkTest("a private address behind a public name", async () => {
    await using host = await startHost();
    await using service = await openService({ network: { resolve: to("127.0.0.1") } });
    const sandbox = await service.create({ persistent: false });
    expect(await askGateway(sandbox, name, host.port)).toBe("refused");
    expect(host.requests).toEqual([]);
  });

  networkTest("cloud metadata, even if every private address is allowed", async () => {
    await using service = await openService({ network: { allowPrivate: "all" } });
    const sandbox = await service.create({ persistent: false });
    expect(await curl(sandbox, "http://169.254.169.254/")).toBe("failed");
  });
});

describe("what a sandbox can reach", () => {
  networkTest("an address that the operator allows, by its loopback URL", async () => {
    await using host = await startHost();
    await using other = await startHost();
    const allowPrivate = [`127.0.0.1:${host.port}`];
    await using service = await openService({ network: { allowPrivate } });
    const sandbox = await service.create({ persistent: false });
    const code = `fetch("http://127.0.0.1:${host.port}/x").then((r) => r.text()).then(console.log)`;
    expect(await (await sandbox.runCommand("node", ["-e", code])).stdout()).toBe("answered GET /x\n");
    expect(await curl(sandbox, `http://localhost:${host.port}/y`)).toBe("answered GET /y");
    expect(await curl(sandbox, `http://127.0.0.1:${other.port}/`)).toBe("failed");
  });

  networkTest("a service of the host that starts later, if every private address is allowed", async () => {
    await using service = await openService({ network: { allowPrivate: "all" } });
    const sandbox = await service.create({ persistent: false });
    await sh(sandbox, "true");
    await using host = await startHost();
    expect(await curl(sandbox, `http://127.0.0.1:${host.port}/`)).toBe("answered GET /");
    expect(await curl(sandbox, `-d ${"x".repeat(50_000)} http://127.0.0.1:${host.port}/post`)).toBe(
      "answered POST /post",
    );
  });

  networkTest("a name that the host resolves", async () => {
    await using service = await openService({
      network: { resolve: async (host, port) => (host === name ? [{ address: "93.184.216.34", port }] : []) },
    });
    const sandbox = await service.create({ persistent: false });
    expect(await sh(sandbox, `getent hosts ${name}`)).toMatch(/^198\.18\.\d+\.\d+\s+allowed\.example/);
    expect(await sh(sandbox, "getent hosts unknown.example || echo unknown")).toBe("unknown");
  });
});

describe("a network policy", () => {
  networkTest("denies hosts that it does not name, at once and after an update", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const sandbox = await service.create({ persistent: false, networkPolicy: { allow: [name] } });
    expect(await curl(sandbox, `http://${name}/`)).toBe("answered GET /");
    expect(await curl(sandbox, "http://denied.example/")).toBe("failed");
    expect(await askGateway(sandbox, "denied.example", 80)).toBe("refused");
    await sandbox.update({ networkPolicy: "deny-all" });
    expect(await curl(sandbox, `http://${name}/`)).toBe("failed");
    await sandbox.update({ networkPolicy: { allow: ["*.example"] } });
    expect(await curl(sandbox, "http://denied.example/")).toBe("answered GET /");
  });

  networkTest("denies subnets before it allows names", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const networkPolicy = { allow: [name], subnets: { deny: ["127.0.0.0/8"] } };
    const sandbox = await service.create({ persistent: false, networkPolicy });
    expect(await curl(sandbox, `http://${name}/`)).toBe("failed");
    await sandbox.update({ networkPolicy: { subnets: { allow: ["127.0.0.0/8"] } } });
    expect(await curl(sandbox, `http://${name}/`)).toBe("answered GET /");
  });

  for (const scheme of ["http", "https"] as const) {
    networkTest(`injects headers that the sandbox never sees over ${scheme}`, async () => {
      const certificate = await createTestCertificate(name);
      await using host = await startHost(scheme === "https" ? { certificate } : {});
      await using service = await openService(toHost(host.port, [certificate.authority]));
      const sandbox = await service.create({
        persistent: false,
        networkPolicy: {
          allow: { [name]: [{ transform: [{ headers: { authorization: `Bearer ${secret}` } }] }] },
        },
      });
      const url = `${scheme}://${name}/path?query`;
      expect(await curl(sandbox, `-H 'authorization: placeholder' ${url}`)).toBe("answered GET /path?query");
      const code = `fetch("${url}", { method: "POST", body: "text" }).then((r) => r.text()).then(console.log)`;
      const finished = await sandbox.runCommand("node", ["-e", code]);
      expect(await finished.output("both")).toBe("answered POST /path?query\n");
      expect(host.requests.map(({ headers }) => headers.authorization)).toEqual(
        Array.from({ length: 2 }, () => `Bearer ${secret}`),
      );
      expect(host.requests.map(({ headers }) => headers.host)).toEqual([name, name]);
      expect(
        await sh(sandbox, `env; grep -rs ${secret} /proc/[0-9]*/environ /run /etc || true`),
      ).not.toContain(secret);
    });
  }

  networkTest("sends the injected header only to the host that it names", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const headers = { "x-key": secret };
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [name]: [{ transform: [{ headers }] }], "*": [] } },
    });
    await curl(sandbox, "http://other.example/");
    await curl(sandbox, `-H 'Host: attacker.example' http://${name}/`);
    expect(host.requests.map(({ headers }) => [headers.host, headers["x-key"]])).toEqual([
      ["other.example", undefined],
      [name, secret],
    ]);
  });

  networkTest("applies the first rule that matches path and method", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const rule = (key: string, match: object) => ({ match, transform: [{ headers: { "x-key": key } }] });
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: {
        allow: {
          [name]: [
            rule("posted", { method: ["POST"], path: { startsWith: "/v1/" } }),
            rule("read", { path: { exact: "/v1/models" } }),
            rule("query", { queryString: [{ key: { exact: "a" }, value: { regex: "^b+$" } }] }),
            rule("header", { headers: [{ key: { exact: "X-Want" }, value: { exact: "yes" } }] }),
            { match: { path: { startsWith: "/ok" } }, transform: [] },
            { response: { statusCode: 403, body: "not this way", contentType: "text/plain" } },
          ],
        },
      },
    });
    const at = (path: string) => `http://${name}${path}`;
    await curl(sandbox, `-X POST ${at("/v1/models")}`);
    await curl(sandbox, at("/v1/models"));
    await curl(sandbox, at("/?a=bb"));
    await curl(sandbox, `-H 'x-want: yes' ${at("/")}`);
    await curl(sandbox, at("/ok"));
    expect(await curl(sandbox, at("/secret"))).toBe("not this way");
    expect(host.requests.map(({ headers }) => headers["x-key"])).toEqual([
      "posted",
      "read",
      "query",
      "header",
      undefined,
    ]);
  });

  networkTest("forwards requests to a proxy of the caller", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const sandbox = await service.create({
      persistent: false,
      networkPolicy: { allow: { [name]: [{ forwardURL: "http://proxy.example/handler" }] } },
    });
    expect(await curl(sandbox, `http://${name}/original`)).toBe("answered GET /handler");
    expect(host.requests[0]?.headers).toMatchObject({
      "vercel-forwarded-host": name,
      "vercel-forwarded-path": "/original",
      "vercel-forwarded-scheme": "http",
      "vercel-forwarded-port": "80",
    });
  });

  networkTest("stays in force after a resume", async () => {
    await using host = await startHost();
    await using service = await openService(toHost(host.port));
    const headers = { "x-key": secret };
    const sandbox = await service.create({
      networkPolicy: { allow: { [name]: [{ transform: [{ headers }] }] } },
    });
    await sandbox.stop();
    expect(await curl(sandbox, "http://other.example/")).toBe("failed");
    expect(await curl(sandbox, `http://${name}/`)).toBe("answered GET /");
    expect(host.requests[0]?.headers["x-key"]).toBe(secret);
  });
});

describe("a port of a sandbox", () => {
  networkTest("is reachable through domain(), and not directly", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false, ports: [3210] });
    await serve(sandbox, 3210);
    const through = await service.credentials.fetch(`${sandbox.domain(3210)}/page?x=1`);
    expect(await through.text()).toBe("served inside");
    const { host, port } = new URL(sandbox.routes[0]?.url ?? "");
    expect(host.endsWith(`.localhost:${new URL(service.url).port}`)).toBe(true);
    expect(port).toBe(new URL(service.url).port);
    await expect(fetch("http://127.0.0.1:3210/")).rejects.toThrow();
  });

  networkTest("answers 502 if nothing listens, or the route is not known", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false, ports: [3210] });
    const { fetch } = service.credentials;
    expect((await fetch(sandbox.domain(3210))).status).toBe(502);
    expect((await fetch(sandbox.domain(3210).replace("3210", "22"))).status).toBe(502);
  });
});

describe("what a process in a sandbox has", () => {
  isolationTest("no capabilities, no inherited file descriptors, and limits", async () => {
    await using service = await openService({ limits: { process: { openFiles: 777 } } });
    const sandbox = await service.create({ persistent: false });
    expect(await sh(sandbox, "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | tr -d '0\\n\\t'")).toBe(
      "CapInh:CapPrm:CapEff:CapAmb:",
    );
    // The fourth is the directory itself.
    expect(await sh(sandbox, "ls /proc/self/fd")).toBe("0\n1\n2\n3");
    expect(await sh(sandbox, "ulimit -n; ulimit -c")).toBe("777\n0");
    const change = await sandbox.runCommand("ip", ["route", "del", "local", "default", "dev", "lo"]);
    expect(change.exitCode).not.toBe(0);
  });
});
