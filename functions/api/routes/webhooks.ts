import type { EndingDeps } from "@concierge/core";
import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Env } from "../env.ts";
import { json, problems, security } from "../responses.ts";

const secret = createRoute({
  security,
  tags: ["webhooks"],
  method: "get",
  path: "/v1/webhooks/secret",
  summary: "What your webhooks are signed with, as Standard Webhooks has it",
  responses: {
    200: json(
      z.object({ secret: z.string() }).openapi("WebhookSecret"),
      "Your secret; it is the same every time",
    ),
    ...problems("unauthorized"),
  },
});

export function registerWebhooks(app: OpenAPIHono<Env>, { sealer }: EndingDeps): void {
  app.openapi(secret, (c) => c.json({ secret: sealer.webhookSecret(c.get("caller").userId) }, 200));
}
