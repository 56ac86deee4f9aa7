import { type EndingDeps, limits } from "@concierge/core";
import { rotateWebhookSecret, webhookSecretsOf } from "@concierge/core/webhook/secret";
import * as z from "zod/mini";
import { record } from "../audited.ts";
import { createRoute, type DocumentedRouter, json, security } from "../openapi/documented-router.ts";

const common = { security, tags: ["webhooks"], scope: "tasks:write" } as const;

const secret = createRoute({
  ...common,
  method: "get",
  path: "/v1/webhooks/secret",
  summary: "Get the secret that signs your webhooks (Standard Webhooks)",
  responses: {
    200: json(
      z.object({ secret: z.string() }).register(z.globalRegistry, { id: "WebhookSecret" }),
      "Your secret; it changes only when you rotate it",
    ),
  },
});

const rotate = createRoute({
  ...common,
  method: "post",
  path: "/v1/webhooks/secret/rotate",
  summary: "Replace the secret; webhooks are signed with both for `overlapMs`",
  request: {
    body: {
      required: false,
      ...json(
        z.strictObject({
          overlapMs: z.optional(z.int().check(z.minimum(0), z.maximum(limits.webhookOverlapMaxMs))),
        }),
        "How long both are used; a day by default",
      ),
    },
  },
  responses: {
    200: json(
      z
        .object({ secret: z.string(), previousUntil: z.iso.datetime() })
        .register(z.globalRegistry, { id: "RotatedWebhookSecret" }),
      "The new secret",
    ),
  },
  refuses: ["secret_changed"],
});

const uncached = { "cache-control": "no-store" };

export function registerWebhooks(app: DocumentedRouter, deps: EndingDeps): void {
  app.openapi(secret, async (c) => {
    const [current = ""] = await webhookSecretsOf(deps, c.get("caller").userId);
    return c.json({ secret: current }, 200, uncached);
  });

  app.openapi(rotate, async (c) => {
    const { userId } = c.get("caller");
    const { overlapMs = limits.webhookOverlapMs } = c.req.valid("json");
    await record(deps, c, "webhook_secret.rotate", userId, { overlapMs: String(overlapMs) });
    const rotated = await rotateWebhookSecret(deps, userId, overlapMs);
    const previousUntil = new Date(rotated.previousUntil).toISOString();
    return c.json({ secret: rotated.secret, previousUntil }, 200, uncached);
  });
}
