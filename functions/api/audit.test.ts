import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver, push, repo } from "../../test/testing/driver.ts";

let driver: Driver;
beforeEach(() => {
  driver = createDriver();
});

const list = async (query = "") => (await driver.api.request("GET", `/v1/audit${query}`)).json.items;
const actions = async () =>
  (await list()).map(({ action, target }: Record<string, string>) => [action, target]);

describe("the audit log", () => {
  it("has who, from where, what, when and the request id", async () => {
    const response = await driver.api.app.request(
      "/v1/flags",
      {
        method: "PUT",
        headers: {
          authorization: "Bearer admin-key-for-tests-only",
          "content-type": "application/json",
          "x-request-id": "request-7",
        },
        body: JSON.stringify({ ENABLE_HEALTH_PROBE: "10%" }),
      },
      { sourceIp: "203.0.113.9" },
    );
    expect(response.status).toBe(200);
    expect(await list()).toEqual([
      {
        id: expect.stringMatching(/^audit_[0-9a-z]{26}$/),
        at: expect.stringMatching(/Z$/),
        action: "flags.change",
        userId: "admin",
        keyId: "bootstrap",
        ip: "203.0.113.9",
        requestId: "request-7",
        target: "flags",
        detail: { ENABLE_HEALTH_PROBE: "10%" },
      },
    ]);
  });

  it("records keys, limits, stops, deletions, push grants and rotations, and no secret", async () => {
    const { api, post } = driver;
    const { id: keyId, key } = (await post("/v1/keys", { userId: "bob", name: "laptop" })).json;
    const rotated = (await post(`/v1/keys/${keyId}/rotate`, { overlapMs: 1000 })).json;
    await api.request("DELETE", `/v1/keys/${rotated.id}`);
    await api.request("PUT", "/v1/users/bob/limits", { body: { maxStreams: 4 } });
    const { secret } = (await post("/v1/webhooks/secret/rotate")).json;
    const { id, token } = await driver.running({ repo });
    expect((await driver.say(token, "finalize", push)).json.action).toBe("go");
    const other = await driver.running({ sessionKey: "other" });
    await driver.stop(other.id);
    await api.work();
    await api.request("DELETE", `/v1/tasks/${other.id}`);
    await api.request("DELETE", "/v1/sessions/other");
    await api.request("DELETE", "/v1/users/bob");
    // Entries of the same millisecond have no order.
    const wanted = [
      ["key.create", keyId],
      ["key.rotate", keyId],
      ["key.revoke", rotated.id],
      ["limits.change", "bob"],
      ["webhook_secret.rotate", "admin"],
      ["push.grant", `${id}/1`],
      ["task.stop", other.id],
      ["task.delete", other.id],
      ["session.delete", "other"],
      ["user.delete", "bob"],
    ];
    expect((await actions()).sort()).toEqual(wanted.sort());
    expect(await list("?action=push.grant")).toMatchObject([
      { userId: "admin", keyId: "runner", detail: { branch: "work", commit: push.commit } },
    ]);
    const text = JSON.stringify(await list());
    for (const hidden of [key, rotated.key, secret, repo.token]) expect(text).not.toContain(hidden);
  });

  it("is filtered by user and action, and paged newest first", async () => {
    const key = await driver.api.keyFor("bob");
    for (let i = 0; i < 5; i++) {
      driver.api.advance(1);
      await driver.api.request("POST", "/v1/webhooks/secret/rotate", { key });
    }
    expect(await list("?userId=bob")).toHaveLength(5);
    expect(await list("?userId=admin&action=key.create")).toHaveLength(1);
    const { items, cursor } = (await driver.api.request("GET", "/v1/audit?userId=bob&limit=2")).json;
    expect(items).toHaveLength(2);
    expect((await list(`?userId=bob&limit=10&cursor=${cursor}`)).length).toBe(3);
    expect((await driver.api.request("GET", "/v1/audit?action=dance")).status).toBe(400);
    expect((await driver.api.request("GET", "/v1/audit", { key })).json.code).toBe("missing_scope");
  });

  it("expires after its retention", async () => {
    await driver.api.keyFor("bob");
    driver.api.advance(366 * 24 * 60 * 60_000);
    expect(await list()).toEqual([]);
  });

  it.each([
    ["PUT", "/v1/flags", { ENABLE_HEALTH_PROBE: "off" }],
    ["PUT", "/v1/users/bob/limits", { maxStreams: 1 }],
    ["POST", "/v1/webhooks/secret/rotate", {}],
    ["DELETE", "/v1/users/bob", undefined],
  ])("fails %s %s if the entry cannot be written, and nothing changes", async (method, path, body) => {
    const { api } = driver;
    const { secret } = (await api.request("GET", "/v1/webhooks/secret")).json;
    const key = await api.keyFor("bob");
    api.deps.store.addAudit = async () => {
      throw new Error("the table is away");
    };
    expect((await api.request(method, path, body === undefined ? {} : { body })).status).toBe(500);
    expect((await api.request("GET", "/v1/flags")).json.ENABLE_HEALTH_PROBE).toBe("on");
    expect((await api.request("GET", "/v1/users/bob/limits")).json.maxStreams).toBe(100);
    expect((await api.request("GET", "/v1/webhooks/secret")).json.secret).toBe(secret);
    expect((await api.request("GET", "/v1/me", { key })).status).toBe(200);
  });

  it("gives no push credential without an entry, and gives it when the runner asks again", async () => {
    const { token } = await driver.running({ repo });
    const { addAudit } = driver.api.deps.store;
    driver.api.deps.store.addAudit = async () => {
      throw new Error("the table is away");
    };
    const refused = await driver.say(token, "finalize", push);
    expect([refused.status, refused.text.includes(repo.token)]).toEqual([500, false]);
    driver.api.deps.store.addAudit = addAudit;
    expect((await driver.say(token, "finalize", push)).json.action).toBe("go");
    expect(await list("?action=push.grant")).toHaveLength(1);
  });

  it("records a stop through MCP, and fails a stop that it cannot record", async () => {
    const { api } = driver;
    const { id } = await driver.running();
    const call = {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "stop_task", arguments: { taskId: id } },
    };
    const headers = { accept: "application/json, text/event-stream" };
    const answer = await api.request("POST", "/mcp", { body: call, headers });
    expect(answer.text).toContain("stopped");
    expect(await actions()).toContainEqual(["task.stop", id]);

    const second = await driver.running({ sessionKey: "second" });
    api.deps.store.addAudit = async () => {
      throw new Error("the table is away");
    };
    expect((await driver.stop(second.id)).status).toBe(500);
    expect((await driver.get(second.id)).status).toBe("stopped");
  });
});

describe("the webhook secret", () => {
  const ended = async () => {
    const { token } = await driver.running({ webhook: { url: "https://hooks.test/x" } });
    await driver.end(token);
    await driver.api.work();
    await driver.api.work();
    return driver.api.told.at(-1);
  };
  const get = async () => await driver.api.request("GET", "/v1/webhooks/secret");

  it("is not cached", async () => {
    expect((await get()).headers.get("cache-control")).toBe("no-store");
    expect((await driver.post("/v1/webhooks/secret/rotate")).headers.get("cache-control")).toBe("no-store");
  });

  it("is replaced, and messages are signed with both until the overlap ends", async () => {
    const old = (await get()).json.secret;
    expect(await ended()).toMatchObject({ secret: old });
    const { secret, previousUntil } = (await driver.post("/v1/webhooks/secret/rotate", { overlapMs: 60_000 }))
      .json;
    expect(secret).not.toBe(old);
    expect(Date.parse(previousUntil) - driver.api.deps.clock.now()).toBeLessThanOrEqual(60_000);
    expect((await get()).json.secret).toBe(secret);
    expect(await ended()).toMatchObject({ secret, otherSecrets: [old] });
    driver.api.advance(60_000);
    const later = await ended();
    expect([later?.secret, later?.otherSecrets]).toEqual([secret, undefined]);
  });

  it("is replaced once by two requests at the same time", async () => {
    const answers = await Promise.all([1, 2, 3].map(() => driver.post("/v1/webhooks/secret/rotate")));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    expect((await get()).json.secret).toBe(won[0]?.json.secret);
  });
});
