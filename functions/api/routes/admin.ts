import { allFlagsSchema, type EndingDeps, flagsRequestSchema, putFlags, withFlags } from "@concierge/core";
import { reap, reapReportSchema } from "@concierge/core/reaper/reap";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";

const common = { security, tags: ["admin"] };

/** Limits how long the caller waits. The next pass continues. */
const reapMaxMs = 20_000;

const getFlags = createRoute({
  ...common,
  method: "get",
  path: "/v1/flags",
  scope: "admin",
  summary: "Get all flags",
  responses: { 200: json(allFlagsSchema, "Every flag: on, off, or a percentage of users") },
});

const changeFlags = createRoute({
  ...common,
  method: "put",
  path: "/v1/flags",
  scope: "admin",
  summary: "Change flags: on, off, or a percentage of users; effective within ten seconds",
  request: { body: { required: true, ...json(flagsRequestSchema, "The flags to change") } },
  responses: { 200: json(allFlagsSchema, "All flags") },
});

const runReaper = createRoute({
  ...common,
  method: "post",
  path: "/v1/reap",
  scope: "admin",
  summary: "Run a reaper pass now, or report what it would do",
  request: {
    body: { required: false, ...json(z.strictObject({ dryRun: z.optional(z.boolean()) }), "Options") },
  },
  responses: { 200: json(reapReportSchema, "What the pass did") },
});

export function registerAdmin(app: DocumentedRouter, deps: EndingDeps): void {
  const flags = async () => withFlags(deps.config.flags, await deps.store.getFlags());
  app.openapi(getFlags, async (c) => c.json(await flags(), 200));

  app.openapi(changeFlags, async (c) => {
    const asked = Object.entries(c.req.valid("json")).map(([name, value]) => [name, String(value)]);
    await record(deps, c, "flags.change", "flags", Object.fromEntries(asked));
    await putFlags(deps.store, c.req.valid("json"));
    return c.json(await flags(), 200);
  });

  app.openapi(runReaper, async (c) => {
    const { dryRun = false } = c.req.valid("json") ?? {};
    return c.json(await reap(deps, { dryRun, maxMs: reapMaxMs }), 200);
  });
}
