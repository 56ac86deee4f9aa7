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
});
