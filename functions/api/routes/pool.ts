import { baseSnapshotViewSchema, costsSchema, type EndingDeps } from "@concierge/core";
import { getBaseSnapshot, requestBaseSnapshot } from "@concierge/core/base-snapshot/build";
import { poolSchema, poolStats } from "@concierge/core/capacity/stats";
import { readCosts } from "@concierge/core/usage/usage";
import * as z from "zod/mini";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";

const common = { security, tags: ["pool"] };

const pool = createRoute({
  ...common,
  method: "get",
  path: "/v1/pool",
  scope: "tasks:read",
  summary: "Get numbers about the sandbox pool",
  responses: { 200: json(poolSchema, "The pool") },
});

const costs = createRoute({
  ...common,
  method: "get",
  path: "/v1/costs",
  scope: "tasks:read",
  summary: "Get usage and costs per day",
  description:
    "Includes what one sandbox per message would have cost. Admins see all users. Without `from` and `to`: the last seven days.",
  request: {
    query: z.strictObject({
      from: z.optional(z.iso.date()),
      to: z.optional(z.iso.date()),
      userId: z.optional(z.string().check(z.maxLength(64))),
    }),
  },
  responses: {
    200: json(costsSchema, "One entry per day, oldest first"),
  },
});

const getBase = createRoute({
  ...common,
  method: "get",
  path: "/v1/snapshot",
  scope: "admin",
  summary: "Get the base snapshot, from which new sandboxes are created",
  responses: { 200: json(baseSnapshotViewSchema, "The base snapshot") },
});

const rebuildBase = createRoute({
  ...common,
  method: "post",
  path: "/v1/snapshot",
  scope: "admin",
  summary: "Rebuild the base snapshot",
  responses: { 202: json(baseSnapshotViewSchema, "The build is queued") },
});

export function registerPool(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(pool, async (c) => c.json(await poolStats(deps), 200));

  app.openapi(costs, async (c) => c.json(await readCosts(deps, c.get("caller"), c.req.valid("query")), 200));

  app.openapi(getBase, async (c) => c.json(await getBaseSnapshot(deps), 200));

  app.openapi(rebuildBase, async (c) => c.json(await requestBaseSnapshot(deps), 202));
}
