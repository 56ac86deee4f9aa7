import { beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../../../test/testing/api.ts";
import { scopes } from "./schema.ts";

let api: TestApi;
let bob: string;
beforeEach(async () => {
  api = createTestApi();
  bob = await api.keyFor("bob");
});

const as = async (key: string, method: string, path: string, body?: unknown) =>
  await api.request(method, path, { key, ...(body !== undefined && { body }) });
const create = async (key: string, body: unknown = {}) => (await as(key, "POST", "/v1/keys", body)).json;

describe("GET /v1/me", () => {
  it("shows the user, the key, its scopes and the limits", async () => {
    const { id, key } = await create(bob, { name: "laptop", scopes: ["tasks:read"] });
    expect((await as(key, "GET", "/v1/me")).json).toEqual({
      userId: "bob",
      keyId: id,
      scopes: ["tasks:read"],
      admin: false,
      limits: {
        maxSandboxes: 25,
        maxKeys: 50,
        maxDurationMs: expect.any(Number),
        maxInactivityMs: expect.any(Number),
        maxCostUsd: null,
        maxCostUsdPerDay: null,
        maxConcurrentTasks: 200,
        maxQueuedTasks: 100,
        maxStreams: 100,
        maxStreamsPerKey: 50,
        requestsPerMinute: 2400,
        requestsPerMinutePerKey: 1200,
      },
    });
  });

  it("gives the bootstrap key every scope", async () => {
    const { json } = await api.request("GET", "/v1/me");
    expect(json).toMatchObject({ userId: "admin", keyId: "bootstrap", scopes, admin: true });
  });
});

describe("a key", () => {
  it("is created by users for themselves, within their own scopes", async () => {
    const reader = await create(bob, { scopes: ["tasks:read", "keys"] });
    expect(reader).toMatchObject({ scopes: ["tasks:read", "keys"], expiresAt: null });
    const more = await as(reader.key, "POST", "/v1/keys", { scopes: ["tasks:write"] });
    expect([more.status, more.json.code, more.json.scope]).toEqual([403, "missing_scope", "tasks:write"]);
    expect((await create(reader.key)).scopes).toEqual(["tasks:read", "keys"]);
  });

  it("is not accepted from its expiry on", async () => {
    const expiresAt = new Date(api.deps.clock.now() + 60_000).toISOString();
    const { key } = await create(bob, { expiresAt });
    expect((await as(key, "GET", "/v1/me")).status).toBe(200);
    api.advance(60_000);
    expect((await as(key, "GET", "/v1/me")).status).toBe(401);
  });

  it("cannot expire in the past", async () => {
    const answer = await as(bob, "POST", "/v1/keys", { expiresAt: "2020-01-01T00:00:00Z" });
    expect([answer.status, answer.json.code]).toEqual([400, "invalid_request"]);
  });

  it("is listed to its user with name, scopes and last use, and to admins with all others", async () => {
    const { id, key } = await create(bob, { name: "ci", scopes: ["tasks:read"] });
    await as(key, "GET", "/v1/tasks");
    await api.keyFor("carol");
    const mine = (await as(bob, "GET", "/v1/keys")).json.items;
    expect(mine.map(({ userId }: { userId: string }) => userId)).toEqual(["bob", "bob"]);
    expect(mine[0]).toMatchObject({ id, name: "ci", scopes: ["tasks:read"], lastUsedAt: expect.any(String) });
    expect((await api.request("GET", "/v1/keys")).json.items).toHaveLength(3);
  });

  it("of another user does not exist", async () => {
    const { id } = await create(bob);
    const carol = await api.keyFor("carol");
    for (const [method, path] of [
      ["DELETE", `/v1/keys/${id}`],
      ["POST", `/v1/keys/${id}/rotate`],
    ] as const)
      expect((await as(carol, method, path)).status).toBe(404);
  });

  it("is limited in number per user", async () => {
    for (let i = 0; i < 49; i++) await create(bob);
    const answer = await as(bob, "POST", "/v1/keys", {});
    expect([answer.status, answer.json.code]).toEqual([409, "key_limit"]);
  });
});

describe("rotation", () => {
  it("accepts both keys during the overlap, then only the new one", async () => {
    const old = await create(bob, { name: "ci", scopes: ["tasks:read"] });
    const { status, json } = await as(bob, "POST", `/v1/keys/${old.id}/rotate`, { overlapMs: 60_000 });
    expect([status, json.scopes]).toEqual([201, ["tasks:read"]]);
    for (const key of [old.key, json.key]) expect((await as(key, "GET", "/v1/me")).status).toBe(200);
    api.advance(60_000);
    expect((await as(old.key, "GET", "/v1/me")).status).toBe(401);
    expect((await as(json.key, "GET", "/v1/me")).status).toBe(200);
  });

  it("ends the old key at once without an overlap", async () => {
    const old = await create(bob);
    await as(bob, "POST", `/v1/keys/${old.id}/rotate`);
    expect((await as(old.key, "GET", "/v1/me")).status).toBe(401);
  });

  it("never gives more than the caller has", async () => {
    const wide = await create(bob);
    const narrow = await create(bob, { scopes: ["keys"] });
    const answer = await as(narrow.key, "POST", `/v1/keys/${wide.id}/rotate`);
    expect([answer.status, answer.json.code]).toEqual([403, "missing_scope"]);
  });
});
