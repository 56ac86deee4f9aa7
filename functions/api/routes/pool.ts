import { baseViewSchema, costsSchema, type EndingDeps } from "@concierge/core";
import { getBase, poolSchema, poolStats, readCosts, requestBase } from "@concierge/core/verbs";
import * as z from "zod/mini";
import { requireAdmin } from "../admin.ts";
import { createRoute, json, type Router, security } from "../router.ts";

const common = { security, tags: ["pool"] };

const pool = createRoute({
  ...common,
  method: "get",
  path: "/v1/pool",
  summary: "The pool of sandboxes, in numbers",
  responses: { 200: json(poolSchema, "The numbers") },
});

const costs = createRoute({
  ...common,
  method: "get",
  path: "/v1/costs",
  summary: "What was used by day, and what a sandbox per message would have used; everyone's for admins",
  request: {
    query: z.strictObject({
      from: z.optional(z.iso.date()),
      to: z.optional(z.iso.date()),
      userId: z.optional(z.string().check(z.maxLength(64))),
    }),
  },
  responses: {
    200: json(costsSchema, "Day by day, newest last, the last seven where nothing is said"),
  },
  refuses: ["forbidden"],
});

const seeBase = createRoute({
  ...common,
  method: "get",
  path: "/v1/snapshot",
  summary: "The base snapshot that new sandboxes are made from",
  responses: { 200: json(baseViewSchema, "As it is now") },
  refuses: ["forbidden"],
});

const rebuildBase = createRoute({
  ...common,
  method: "post",
  path: "/v1/snapshot",
  summary: "Build the base snapshot anew",
  responses: { 202: json(baseViewSchema, "It is on its way") },
  refuses: ["forbidden"],
});

export function registerPool(app: Router, deps: EndingDeps): void {
  app.use("/v1/snapshot", requireAdmin);

  app.openapi(pool, async (c) => c.json(await poolStats(deps), 200));

  app.openapi(costs, async (c) => c.json(await readCosts(deps, c.get("caller"), c.req.valid("query")), 200));

  app.openapi(seeBase, async (c) => c.json(await getBase(deps), 200));

  app.openapi(rebuildBase, async (c) => c.json(await requestBase(deps), 202));
}
