import type { Deps } from "@concierge/core";
import * as z from "zod/mini";
import manifest from "../../package.json" with { type: "json" };
import { createRoute, type DocumentedRouter, json } from "../openapi/documented-router.ts";

const healthSchema = z
  .object({ status: z.literal("ok"), version: z.string(), stage: z.string() })
  .register(z.globalRegistry, { id: "Health" });

const route = createRoute({
  method: "get",
  path: "/healthz",
  summary: "Check that the API answers",
  responses: { 200: json(healthSchema, "The API answers") },
});

export function registerHealth(app: DocumentedRouter, { config }: Deps): void {
  app.openapi(route, (c) =>
    c.json({ status: "ok" as const, version: manifest.version, stage: config.stage }, 200),
  );
}
