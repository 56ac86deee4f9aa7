import { type Deps, type Key, limits, scopes, userLimitsFields } from "@concierge/core";
import { createKey, findKey, revokeKey, rotateKey, scopesOf } from "@concierge/core/keys/keys";
import { limitsOf } from "@concierge/core/users/limits";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";
import { pageOf, pageQuery, parseIdCursor } from "../paging.ts";

const scopeSchema = z.enum(scopes);
const nullableTime = z.nullable(z.iso.datetime());

const keyViewSchema = z
  .object({
    id: z.string(),
    userId: z.string(),
    admin: z.boolean(),
    name: z.nullable(z.string()),
    scopes: z.array(scopeSchema),
    createdAt: z.iso.datetime(),
    expiresAt: nullableTime,
    lastUsedAt: nullableTime,
  })
  .register(z.globalRegistry, { id: "Key" });

const keyRequestSchema = z
  .strictObject({
    name: z.optional(z.string().check(z.minLength(1), z.maxLength(limits.keyNameMaxLength))),
    scopes: z.optional(z.array(scopeSchema).check(z.minLength(1), z.maxLength(scopes.length))),
    expiresAt: z.optional(z.iso.datetime()),
    userId: z.optional(
      z
        .string()
        .check(z.regex(/^[A-Za-z0-9._@-]{1,64}$/, { error: "must be 1 to 64 of A-Z, a-z, 0-9 and . _ @ -" })),
    ),
    admin: z.optional(z.boolean()),
  })
  .register(z.globalRegistry, { id: "KeyRequest" });

const newKeySchema = z
  .object({ id: z.string(), key: z.string(), scopes: z.array(scopeSchema), expiresAt: nullableTime })
  .register(z.globalRegistry, { id: "NewKey" });

const meSchema = z
  .object({
    userId: z.string(),
    keyId: z.string(),
    scopes: z.array(scopeSchema),
    admin: z.boolean(),
    limits: z.extend(z.object({ maxSandboxes: z.int(), maxKeys: z.int() }), userLimitsFields),
  })
  .register(z.globalRegistry, { id: "Me" });

const common = { security, tags: ["keys"] };
const params = z.object({ id: z.string() });

const me = createRoute({
  ...common,
  method: "get",
  path: "/v1/me",
  summary: "Get the caller: user, key, scopes and limits",
  responses: { 200: json(meSchema, "The caller") },
});

const create = createRoute({
  ...common,
  method: "post",
  path: "/v1/keys",
  scope: "keys",
  summary: "Create an API key",
  description:
    "The key is shown only in this answer; it is stored as a hash. It never has more scopes than the caller. Only admins may set `userId` and `admin`.",
  request: { body: { required: false, ...json(keyRequestSchema, "The key") } },
  responses: { 201: json(newKeySchema, "The new key") },
  refuses: ["forbidden", "key_limit", "user_deleting"],
});

const list = createRoute({
  ...common,
  method: "get",
  path: "/v1/keys",
  scope: "keys",
  summary: "List your API keys, newest first, without their secrets; admins see all",
  request: { query: pageQuery },
  responses: { 200: json(pageOf(keyViewSchema), "A page of keys") },
  refuses: ["invalid_cursor"],
});

const remove = createRoute({
  ...common,
  method: "delete",
  path: "/v1/keys/{id}",
  scope: "keys",
  summary: "Revoke an API key",
  request: { params },
  responses: { 204: { description: "The key is revoked" } },
});

const rotate = createRoute({
  ...common,
  method: "post",
  path: "/v1/keys/{id}/rotate",
  scope: "keys",
  summary: "Replace an API key; the old one is accepted for `overlapMs` more",
  request: {
    params,
    body: {
      required: false,
      ...json(
        z.strictObject({
          overlapMs: z.optional(z.int().check(z.minimum(0), z.maximum(limits.keyOverlapMaxMs))),
        }),
        "How long both keys are accepted",
      ),
    },
  },
  responses: { 201: json(newKeySchema, "The new key") },
});

export function registerKeys(app: DocumentedRouter, deps: Deps): void {
  app.openapi(me, async (c) => {
    const { userId, keyId, scopes: own, admin } = c.get("caller");
    const { poolMaxPerUser: maxSandboxes, sandboxMaxMs } = deps.config;
    const mine = await limitsOf(deps, userId);
    const maxDurationMs = Math.min(mine.maxDurationMs, sandboxMaxMs);
    const ceilings = { ...mine, maxSandboxes, maxDurationMs, maxKeys: limits.keysPerUserMax };
    return c.json({ userId, keyId, scopes: [...own], admin, limits: ceilings }, 200);
  });

  app.openapi(create, async (c) => {
    const { expiresAt, ...request } = c.req.valid("json");
    const until = expiresAt === undefined ? {} : { expiresAt: Date.parse(expiresAt) };
    const created = await createKey(deps, c.get("caller"), { ...request, ...until });
    // After the write, because the id is known only then. Without an entry nobody gets the key.
    const { userId = c.get("caller").userId } = request;
    await record(deps, c, "key.create", created.id, { userId, scopes: created.scopes.join(" ") });
    return c.json(viewNew(created), 201);
  });

  app.openapi(list, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const { admin, userId } = c.get("caller");
    const mine = admin ? {} : { userId };
    const page = await deps.store.listKeys({ limit, ...mine, ...parseIdCursor(cursor, "key_") });
    return c.json({ items: page.items.map(viewKey), cursor: page.next ?? null }, 200);
  });

  app.openapi(remove, async (c) => {
    const { id } = c.req.valid("param");
    await findKey(deps, c.get("caller"), id);
    await record(deps, c, "key.revoke", id);
    await revokeKey(deps, c.get("caller"), id);
    return c.body(null, 204);
  });

  app.openapi(rotate, async (c) => {
    const { overlapMs = 0 } = c.req.valid("json");
    const { id } = c.req.valid("param");
    const issued = await rotateKey(deps, c.get("caller"), id, overlapMs);
    await record(deps, c, "key.rotate", id, { replacedBy: issued.id, overlapMs: String(overlapMs) });
    return c.json(viewNew(issued), 201);
  });
}

function viewNew({ id, key, scopes: granted, expiresAt }: Awaited<ReturnType<typeof createKey>>) {
  return { id, key, scopes: [...granted], expiresAt: iso(expiresAt) };
}

function viewKey(key: Key): z.infer<typeof keyViewSchema> {
  const { id, userId, admin, name = null, createdAt, expiresAt, lastUsedAt } = key;
  return {
    id,
    userId,
    admin,
    name,
    scopes: scopesOf(key),
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: iso(expiresAt),
    lastUsedAt: iso(lastUsedAt),
  };
}

function iso(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString();
}
