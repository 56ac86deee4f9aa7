import type { EndingDeps } from "@concierge/core";
import * as z from "zod/mini";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";

const secret = createRoute({
  security,
  tags: ["webhooks"],
  method: "get",
  path: "/v1/webhooks/secret",
  scope: "tasks:write",
  summary: "Get the secret that signs your webhooks (Standard Webhooks)",
  responses: {
    200: json(
      z.object({ secret: z.string() }).register(z.globalRegistry, { id: "WebhookSecret" }),
      "Your secret; it never changes",
    ),
  },
});

export function registerWebhooks(app: DocumentedRouter, { sealer }: EndingDeps): void {
  app.openapi(secret, (c) => c.json({ secret: sealer.webhookSecret(c.get("caller").userId) }, 200));
}
