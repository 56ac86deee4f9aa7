import { allFlagsSchema, type EndingDeps, flagsRequestSchema, putFlags, withFlags } from "@concierge/core";
import { reap, reapReportSchema } from "@concierge/core/verbs";
import * as z from "zod/mini";
import { requireAdmin } from "../admin.ts";
import { createRoute, json, type Router, security } from "../router.ts";

const common = { security, tags: ["admin"] };

/** As long as a caller may be expected to wait; the next sweep goes on. */
const reapMaxMs = 20_000;

const getFlags = createRoute({
  ...common,
  method: "get",
  path: "/v1/flags",
  summary: "The flags, as they are now",
  responses: { 200: json(allFlagsSchema, "Every flag: on, off or a percentage of users") },
  refuses: ["forbidden"],
});

const changeFlags = createRoute({
  ...common,
  method: "put",
  path: "/v1/flags",
  summary: "Switch mechanisms on, off, or on for a percentage of users; in force within ten seconds",
  request: { body: { required: true, ...json(flagsRequestSchema, "The flags to change") } },
  responses: { 200: json(allFlagsSchema, "Every flag") },
  refuses: ["forbidden"],
});

const sweep = createRoute({
  ...common,
  method: "post",
  path: "/v1/reap",
  summary: "Sweep now, or only tell what a sweep would do",
  request: { body: { required: false, ...json(z.strictObject({ dryRun: z.optional(z.boolean()) }), "How") } },
  responses: { 200: json(reapReportSchema, "What was done") },
  refuses: ["forbidden"],
});

export function registerAdmin(app: Router, deps: EndingDeps): void {
  app.use("/v1/flags", requireAdmin);
  app.use("/v1/reap", requireAdmin);

  const flags = async () => withFlags(deps.config.flags, await deps.store.getFlags());
  app.openapi(getFlags, async (c) => c.json(await flags(), 200));

  app.openapi(changeFlags, async (c) => {
    await putFlags(deps.store, c.req.valid("json"));
    return c.json(await flags(), 200);
  });

  app.openapi(sweep, async (c) => {
    const { dryRun = false } = c.req.valid("json") ?? {};
    return c.json(await reap(deps, { dryRun, maxMs: reapMaxMs }), 200);
  });
}
