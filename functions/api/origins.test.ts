import { parseConfig } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { adminKey, createTestApi } from "../../test/testing/api.ts";

const allowed = "https://app.example.com";
const production = { CONCIERGE_ALLOWED_ORIGINS: `${allowed},https://two.example.com` };
const development = { CONCIERGE_ALLOW_PRIVATE_HOSTS: "true" };

const ask = async (env: Record<string, string>, origin: string, init: RequestInit = {}) => {
  const { app } = createTestApi(parseConfig(env));
  const headers = { authorization: `Bearer ${adminKey}`, origin, ...(init.headers as object) };
  const response = await app.request("/v1/me", { ...init, headers });
  return { status: response.status, allows: response.headers.get("access-control-allow-origin"), response };
};

describe("a page in a browser", () => {
  it.each([
    [production, allowed, true],
    [production, "https://two.example.com", true],
    [production, "https://evil.example.com", false],
    [production, `${allowed}.evil.test`, false],
    [production, "http://localhost:3000", false],
    [production, "null", false],
    [{}, allowed, false],
    [development, "http://localhost:3000", true],
    [development, "http://127.0.0.1:3000", true],
    [development, "http://localhost.evil.test", false],
  ])("with %j and origin %s may read answers: %s", async (env, origin, may) => {
    const { status, allows, response } = await ask(env, origin);
    expect([status, allows]).toEqual([200, may ? origin : null]);
    expect(response.headers.get("access-control-allow-credentials")).toBeNull();
    if (may) expect(response.headers.get("vary")).toContain("origin");
  });

  it("asks first, and is told what it may send", async () => {
    const preflight = { method: "OPTIONS", headers: { "access-control-request-method": "POST" } };
    const { status, allows, response } = await ask(production, allowed, preflight);
    expect([status, allows]).toEqual([204, allowed]);
    expect(response.headers.get("access-control-allow-headers")).toContain("authorization");
    const refused = await ask(production, "https://evil.example.com", preflight);
    expect([refused.status, refused.allows]).toEqual([405, null]);
  });

  it("can read refusals, too", async () => {
    const { status, allows } = await ask(production, allowed, { headers: { authorization: "Bearer no" } });
    expect([status, allows]).toEqual([401, allowed]);
  });

  it.each(["*", "app.example.com", "https://a.test/path", "ftp://a.test"])(
    "cannot be allowed as %s",
    (origin) => {
      expect(() => parseConfig({ CONCIERGE_ALLOWED_ORIGINS: origin })).toThrow(
        "CONCIERGE_ALLOWED_ORIGINS takes",
      );
    },
  );
});
