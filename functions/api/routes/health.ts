import type { Deps } from "@concierge/core";
import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import manifest from "../../package.json" with { type: "json" };
import type { Env } from "../env.ts";
import { json } from "../responses.ts";

const healthSchema = z
  .object({ status: z.literal("ok"), version: z.string(), stage: z.string() })
  .openapi("Health");

const route = createRoute({
  method: "get",
  path: "/healthz",
  summary: "Whether the api answers",
  responses: { 200: json(healthSchema, "It does") },
});

export function registerHealth(app: OpenAPIHono<Env>, { config }: Deps): void {
  app.openapi(route, (c) =>
    c.json({ status: "ok" as const, version: manifest.version, stage: config.stage }, 200),
  );
}
