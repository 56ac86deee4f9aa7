import { type Scope, scopes } from "@concierge/core";
import { beforeAll, describe, expect, it } from "vitest";
import { createTestApi } from "../../test/testing/api.ts";

const api = createTestApi();
const open = new Set(["/healthz"]);
/** Every key may ask who it is. */
const unscoped = new Set(["/v1/me"]);

interface Operation {
  method: string;
  path: string;
  codes: string;
}

const operations: Operation[] = [];
const keys = { expired: "", revoked: "" };
const { json: document } = await api.request("GET", "/openapi.json", { key: "" });
for (const [path, methods] of Object.entries<Record<string, { responses: object }>>(document.paths))
  for (const [method, { responses }] of Object.entries(methods))
    operations.push({ method: method.toUpperCase(), path, codes: JSON.stringify(responses) });
const guarded = operations.filter(({ path }) => !open.has(path));

beforeAll(async () => {
  const create = async (body: object) =>
    (await api.request("POST", "/v1/keys", { body: { userId: "bob", ...body } })).json;
  const soon = await create({ expiresAt: new Date(api.deps.clock.now() + 1_000).toISOString() });
  const gone = await create({});
  api.advance(2_000);
  await api.request("DELETE", `/v1/keys/${gone.id}`);
  Object.assign(keys, { expired: soon.key, revoked: gone.key });
});

/** The route with placeholders filled in and a body, if it takes one. The checks run before either is looked at. */
async function call({ method, path }: Operation, key: string) {
  const target = path.replace("{id}", "task_none").replace("{key}", "none");
  return await api.request(method, target, {
    key,
    ...(method !== "GET" && method !== "DELETE" && { body: {} }),
  });
}

describe("every documented route", () => {
  it("is in the matrix", () => {
    expect(guarded.length).toBeGreaterThan(20);
  });

  it.each(guarded)(
    "$method $path refuses no key, a wrong, an expired and a revoked one",
    async (operation) => {
      const wrong = "ck_key_01mcc5rm001wbyh8rvy2srg4p0_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
      for (const key of ["", "nonsense", wrong, keys.expired, keys.revoked])
        expect((await call(operation, key)).status).toBe(401);
    },
  );

  it.each(guarded.filter(({ path }) => !unscoped.has(path)))(
    "$method $path accepts only keys with its scope, and documents that",
    async (operation) => {
      const needed = new Set<Scope>();
      for (const scope of scopes.filter((one) => one !== "admin")) {
        const { json } = await api.request("POST", "/v1/keys", {
          body: { userId: `u-${scope.replace(":", "-")}-${operations.indexOf(operation)}`, scopes: [scope] },
        });
        const answer = await call(operation, json.key);
        if (answer.json?.code === "missing_scope") needed.add(answer.json.scope);
      }
      expect([...needed]).toHaveLength(1);
      expect(operation.codes).toContain("missing_scope");
    },
  );

  const ofOneOwner = guarded.filter(({ path }) => /^\/v1\/(tasks|sessions|keys)\/\{/.test(path));

  it("that names an owned resource is in the matrix of owners", () => {
    expect(ofOneOwner.length).toBeGreaterThan(12);
    const named = guarded.filter(({ path }) => path.includes("{"));
    const rest = named.filter((operation) => !ofOneOwner.includes(operation));
    // The rest is for admins, who may name any user.
    expect(rest.every(({ path }) => path.startsWith("/v1/users/"))).toBe(true);
  });

  it.each(ofOneOwner)(
    "$method $path answers the same for another user's resource as for none",
    async (operation) => {
      const [alice, eve] = [await api.keyFor("alice"), await api.keyFor("eve")];
      const { json: task } = await api.request("POST", "/v1/tasks", {
        key: alice,
        body: { prompt: "x", sessionKey: `s${operations.indexOf(operation)}` },
      });
      await api.request("POST", `/v1/tasks/${task.id}/stop`, { key: alice });
      const { json: key } = await api.request("POST", "/v1/keys", { key: alice, body: {} });
      const idOf = { tasks: task.id, keys: key.id }[operation.path.split("/")[2] ?? ""] as string;
      const body = bodies[operation.path];
      const ask = async (id: string, sessionKey: string) => {
        const path = operation.path.replace("{id}", id).replace("{key}", sessionKey);
        const answer = await api.request(operation.method, path, { key: eve, ...(body && { body }) });
        return [answer.status, answer.text.replaceAll(sessionKey, "")];
      };
      const others = await ask(idOf, task.sessionKey);
      const none = await ask(idOf?.replace(/.{6}$/, "zzzzzz"), `none${operations.indexOf(operation)}`);
      // A session is created by naming it, so the caller gets one of her own.
      if (operation.method === "PUT") expect(others[0]).toBe(none[0]);
      else expect([others, others[0]]).toEqual([none, 404]);
      expect((await api.request("GET", `/v1/tasks/${task.id}`, { key: alice })).json.turn).toBe(1);
      expect((await api.request("GET", `/v1/sessions/${task.sessionKey}`, { key: alice })).status).toBe(200);
      expect((await api.request("GET", "/v1/me", { key: key.key })).status).toBe(200);
    },
  );

  it.each(guarded.filter(({ path }) => admins.test(path)))(
    "$method $path refuses a user who is not an admin",
    async (operation) => {
      const answer = await call(operation, await api.keyFor("bob"));
      expect([answer.status, answer.json?.scope]).toEqual([403, "admin"]);
    },
  );
});

/** What only admins may call. */
const admins = /^\/v1\/(users|audit|flags|reap|snapshot)/;

/** A valid body, so that the owner is what decides. */
const bodies: Readonly<Record<string, object>> = {
  "/v1/tasks/{id}/continue": { prompt: "x" },
  "/v1/sessions/{key}/extend": { durationMs: 60_000 },
  "/v1/sessions/{key}/exec": { command: "true" },
};
