import { describe, expect, it } from "vitest";
import { type Check, type Machine, runChecks } from "./checks.ts";

const now = Date.parse("2026-11-18T00:00:00Z");
const date = (ms: number) => new Date(ms).toUTCString();
const answer = (body: unknown, status = 200, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers });
const refusal = (status: number, code: string) =>
  answer({ type: "", title: "", status, code, detail: `${code}.` }, status);

/** A healthy machine and server. `answers` replace what the server says by path. */
function machine(over: Partial<Machine> = {}, answers: Record<string, () => Response> = {}): Machine {
  const healthy: Record<string, () => Response> = {
    "/healthz": () => answer({ status: "ok", version: "1.0" }, 200, { date: date(now) }),
    "/v1/me": () => answer({ userId: "dev", scopes: ["admin"] }),
    "/v1/reap": () => answer({ failures: [] }),
  };
  return {
    nodeVersion: "24.1.0",
    env: { ANTHROPIC_API_KEY: "x" },
    now: () => now,
    fetch: async (url) => {
      const { host, pathname } = new URL(String(url));
      const reply = { ...healthy, ...answers }[host === "api.vercel.com" ? "vercel" : pathname];
      if (!reply) throw new TypeError("fetch failed");
      return reply();
    },
    run: async () => "ok",
    isPortFree: async () => true,
    areProfilesExposed: async () => false,
    ...over,
  };
}

async function diagnose(machine: Machine, key: string | undefined = "k") {
  const found: Check[] = [];
  for await (const check of runChecks(machine, { url: "http://c.test", key })) found.push(check);
  return Object.fromEntries(found.map((check) => [check.name, check]));
}

describe("doctor", () => {
  it("finds nothing on a healthy machine", async () => {
    const found = await diagnose(machine());
    expect(Object.values(found).map(({ name, result }) => `${name} ${result}`)).toEqual([
      "node ok",
      "isolation ok",
      "port ok",
      "java ok",
      "agents ok",
      "credentials ok",
      "server ok",
      "clock ok",
      "key ok",
      "provider ok",
    ]);
  });

  const down = () => {
    throw new TypeError("fetch failed");
  };
  it.each<[string, string, string, Machine]>([
    ["an old Node", "node", "fail", machine({ nodeVersion: "20.1.0" })],
    ["missing bubblewrap", "isolation", "warn", machine({ run: async () => "missing" })],
    ["bubblewrap without namespaces", "isolation", "warn", machine({ run: async () => "failed" })],
    ["missing Java, which is optional", "java", "note", machine({ run: async () => "missing" })],
    [
      "a port in use",
      "port",
      "warn",
      machine({ isPortFree: async () => false }, { "/healthz": () => new Response("<html>") }),
    ],
    ["missing agent keys", "agents", "note", machine({ env: {} })],
    ["keys that others can read", "credentials", "fail", machine({ areProfilesExposed: async () => true })],
    ["a server that is down", "server", "fail", machine({}, { "/healthz": down })],
    ["a URL of another server", "server", "fail", machine({}, { "/healthz": () => new Response("<html>") })],
    ["a refused key", "key", "fail", machine({}, { "/v1/me": () => refusal(401, "unauthorized") })],
    [
      "a provider that fails",
      "provider",
      "fail",
      machine({}, { "/v1/reap": () => answer({ failures: ["listing: 503"] }) }),
    ],
    ["Vercel variables that are incomplete", "vercel", "fail", machine({ env: { VERCEL_TOKEN: "t" } })],
    [
      "a Vercel token that is refused",
      "vercel",
      "fail",
      machine(
        { env: { VERCEL_TOKEN: "t", VERCEL_TEAM_ID: "t", VERCEL_PROJECT_ID: "p" } },
        { vercel: () => new Response("", { status: 403 }) },
      ),
    ],
  ])("reports %s and how to fix it", async (_, name, result, broken) => {
    const found = await diagnose(broken);
    expect(found[name]?.result).toBe(result);
    expect(found[name]?.fix).toBeTruthy();
  });

  it("reports a missing key", async () => {
    const found = await diagnose({ ...machine() }, "");
    expect(found.credentials).toMatchObject({ result: "fail", fix: expect.stringContaining("login") });
    expect(found.key).toBeUndefined();
  });

  it.each([
    [60_000, "behind"],
    [-60_000, "ahead of"],
  ])("reports a clock that differs by %i ms", async (skewMs, direction) => {
    const health = () => answer({ status: "ok", version: "1" }, 200, { date: date(now + skewMs) });
    const { clock } = await diagnose(machine({}, { "/healthz": health }));
    expect(clock).toMatchObject({ result: "warn", detail: expect.stringContaining(direction) });
  });

  it.each([
    ["unknown", "fail"],
    ["healthy", "ok"],
    [undefined, "note"],
  ])("asks a session whose health is %s, without an admin's key", async (health, result) => {
    const items = health ? [{ sandbox: {}, health }] : [];
    const answers = {
      "/v1/reap": () => refusal(403, "forbidden"),
      "/v1/sessions": () => answer({ items, cursor: null }),
    };
    expect((await diagnose(machine({}, answers))).provider?.result).toBe(result);
  });

  it("takes Concierge on the port for a good sign", async () => {
    expect((await diagnose(machine({ isPortFree: async () => false }))).port?.result).toBe("ok");
  });
});
