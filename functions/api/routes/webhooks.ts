import type { EndingDeps } from "@concierge/core";
import * as z from "zod/mini";
import { createRoute, json, type Router, security } from "../router.ts";

const secret = createRoute({
  security,
  tags: ["webhooks"],
  method: "get",
  path: "/v1/webhooks/secret",
  summary: "What your webhooks are signed with, as Standard Webhooks has it",
  responses: {
    200: json(
      z.object({ secret: z.string() }).register(z.globalRegistry, { id: "WebhookSecret" }),
      "Your secret; it is the same every time",
    ),
  },
});

export function registerWebhooks(app: Router, { sealer }: EndingDeps): void {
  app.openapi(secret, (c) => c.json({ secret: sealer.webhookSecret(c.get("caller").userId) }, 200));
}
