import type { Deps } from "@concierge/core";
import * as z from "zod/mini";
import manifest from "../../package.json" with { type: "json" };
import { createRoute, json, type Router } from "../router.ts";

const healthSchema = z
  .object({ status: z.literal("ok"), version: z.string(), stage: z.string() })
  .register(z.globalRegistry, { id: "Health" });

const route = createRoute({
  method: "get",
  path: "/healthz",
  summary: "Whether the api answers",
  responses: { 200: json(healthSchema, "It does") },
});

export function registerHealth(app: Router, { config }: Deps): void {
  app.openapi(route, (c) =>
    c.json({ status: "ok" as const, version: manifest.version, stage: config.stage }, 200),
  );
}
