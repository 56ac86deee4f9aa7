import {
  AppError,
  auditActions,
  auditEntrySchema,
  type EndingDeps,
  userLimitsRequestSchema,
  userLimitsSchema,
} from "@concierge/core";
import { listAudit } from "@concierge/core/audit/audit";
import { requestUserDeletion } from "@concierge/core/users/delete";
import { changeLimits, limitsOf } from "@concierge/core/users/limits";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";
import { pageOf, pageQuery, parseIdCursor } from "../paging.ts";

const common = { security, tags: ["admin"], scope: "admin" } as const;

export const userIdSchema = z
  .string()
  .check(z.regex(/^[A-Za-z0-9._@-]{1,64}$/, { error: "must be 1 to 64 of A-Z, a-z, 0-9 and . _ @ -" }));

const params = z.object({ id: userIdSchema });

const getLimits = createRoute({
  ...common,
  method: "get",
  path: "/v1/users/{id}/limits",
  summary: "Get a user's limits: the user's own values over the operator's defaults",
  request: { params },
  responses: { 200: json(userLimitsSchema, "The limits") },
});

const putLimits = createRoute({
  ...common,
  method: "put",
  path: "/v1/users/{id}/limits",
  summary: "Change a user's limits; `default` removes the user's own value",
  request: { params, body: { required: true, ...json(userLimitsRequestSchema, "The limits to change") } },
  responses: { 200: json(userLimitsSchema, "All limits") },
});

const remove = createRoute({
  ...common,
  method: "delete",
  path: "/v1/users/{id}",
  summary: "Delete a user: keys at once; tasks, sessions, sandboxes, usage and limits soon after",
  description:
    "Running tasks are stopped first, with proof. Entries of the audit log remain until their retention ends.",
  request: { params },
  responses: { 202: { description: "The deletion has begun" } },
});

const audit = createRoute({
  ...common,
  method: "get",
  path: "/v1/audit",
  summary: "List the audit log, newest first",
  request: {
    query: z.extend(pageQuery, {
      userId: z.optional(userIdSchema),
      action: z.optional(z.enum(auditActions)),
    }),
  },
  responses: { 200: json(pageOf(auditEntrySchema), "A page of entries") },
  refuses: ["invalid_cursor"],
});

export function registerUsers(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(getLimits, async (c) => c.json(await limitsOf(deps, c.req.valid("param").id), 200));

  app.openapi(putLimits, async (c) => {
    const { id } = c.req.valid("param");
    const request = c.req.valid("json");
    const asked = Object.entries(request).map(([name, value]) => [name, String(value)]);
    await record(deps, c, "limits.change", id, Object.fromEntries(asked));
    return c.json(await changeLimits(deps, id, request), 200);
  });

  app.openapi(remove, async (c) => {
    const { id } = c.req.valid("param");
    if (id === c.get("caller").userId) throw new AppError("invalid_request", "You cannot delete yourself.");
    await record(deps, c, "user.delete", id);
    await requestUserDeletion(deps, id);
    return c.body(null, 202);
  });

  app.openapi(audit, async (c) => {
    const { limit, cursor, userId, action } = c.req.valid("query");
    const { items, next } = await listAudit(deps, {
      limit,
      ...parseIdCursor(cursor, "audit_"),
      ...(userId !== undefined && { userId }),
      ...(action !== undefined && { action }),
    });
    return c.json({ items, cursor: next ?? null }, 200);
  });
}
