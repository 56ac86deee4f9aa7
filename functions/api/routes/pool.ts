import {
  baseSnapshotViewSchema,
  costsSchema,
  type EndingDeps,
  metricsSchema,
  windows,
} from "@concierge/core";
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

const metrics = createRoute({
  ...common,
  method: "get",
  path: "/v1/metrics",
  scope: "tasks:read",
  summary: "Get the success metrics of a window and whether they meet their targets",
  description:
    "Your own turns; for admins all turns, or those of `userId`. A window is the current clock hour and the 1, 24 or 168 before it. `Accept: text/plain` gets Prometheus' text format.",
  request: {
    query: z.strictObject({
      window: z._default(z.enum(windows), "24h"),
      userId: z.optional(z.string().check(z.maxLength(64))),
    }),
  },
  responses: {
    200: {
      description: "The metrics",
      content: {
        "application/json": { schema: metricsSchema },
        "text/plain": { schema: z.string() },
      },
    },
  },
  refuses: ["forbidden"],
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

  app.openapi(metrics, async (c) => {
    const { readMetrics } = await import("@concierge/core/metrics/read");
    const view = await readMetrics(deps, c.get("caller"), c.req.valid("query"));
    const accept = c.req.header("accept") ?? "";
    if (!accept.includes("text/plain") || accept.includes("application/json")) return c.json(view, 200);
    const { prometheusType, toPrometheus } = await import("@concierge/core/metrics/prometheus");
    return c.body(toPrometheus(view), 200, { "content-type": prometheusType }) as never;
  });

  app.openapi(getBase, async (c) => c.json(await getBaseSnapshot(deps), 200));

  app.openapi(rebuildBase, async (c) => c.json(await requestBaseSnapshot(deps), 202));
}
