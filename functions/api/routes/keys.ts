import { AppError, createKey, type Deps, type Key } from "@concierge/core";
import * as z from "zod/mini";
import { requireAdmin } from "../middleware/admin.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";
import { pageOf, pageQuery, parseIdCursor } from "../paging.ts";

const keyViewSchema = z
  .object({ id: z.string(), userId: z.string(), admin: z.boolean(), createdAt: z.iso.datetime() })
  .register(z.globalRegistry, { id: "Key" });

const keyRequestSchema = z
  .strictObject({
    userId: z
      .string()
      .check(z.regex(/^[A-Za-z0-9._@-]{1,64}$/, { error: "must be 1 to 64 of A-Z, a-z, 0-9 and . _ @ -" })),
    admin: z.optional(z.boolean()),
  })
  .register(z.globalRegistry, { id: "KeyRequest" });

const newKeySchema = z
  .object({ id: z.string(), key: z.string() })
  .register(z.globalRegistry, { id: "NewKey" });

const common = { security, tags: ["keys"] };

const create = createRoute({
  ...common,
  method: "post",
  path: "/v1/keys",
  summary: "Create an API key for a user",
  description: "The key is shown only in this answer; it is stored as a hash.",
  request: { body: { required: true, ...json(keyRequestSchema, "The user") } },
  responses: {
    201: json(newKeySchema, "The new key"),
  },
  refuses: ["forbidden"],
});

const list = createRoute({
  ...common,
  method: "get",
  path: "/v1/keys",
  summary: "List API keys, newest first, without their secrets",
  request: { query: pageQuery },
  responses: {
    200: json(pageOf(keyViewSchema), "A page of keys"),
  },
  refuses: ["invalid_cursor", "forbidden"],
});

const remove = createRoute({
  ...common,
  method: "delete",
  path: "/v1/keys/{id}",
  summary: "Revoke an API key",
  request: { params: z.object({ id: z.string() }) },
  responses: { 204: { description: "The key is revoked" } },
  refuses: ["forbidden"],
});

export function registerKeys(app: DocumentedRouter, deps: Deps): void {
  app.use("/v1/keys/*", requireAdmin);

  app.openapi(create, async (c) => {
    const { userId, admin = false } = c.req.valid("json");
    return c.json(await createKey(deps, { userId, admin }), 201);
  });

  app.openapi(list, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const { items, next } = await deps.store.listKeys({ limit, ...parseIdCursor(cursor, "key_") });
    return c.json({ items: items.map(viewKey), cursor: next ?? null }, 200);
  });

  app.openapi(remove, async (c) => {
    const found = await deps.store.deleteKey(c.req.valid("param").id);
    if (!found) throw new AppError("not_found", "Key not found.");
    return c.body(null, 204);
  });
}

function viewKey({ id, userId, admin, createdAt }: Key): z.infer<typeof keyViewSchema> {
  return { id, userId, admin, createdAt: new Date(createdAt).toISOString() };
}
