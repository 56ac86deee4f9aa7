import type { lookup } from "node:dns";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { WebhookOutcome, Webhooks } from "@concierge/core";
import { Webhook } from "standardwebhooks";
import { checkLiteral, PrivateAddressError, publicLookup } from "./address.ts";

export interface WebhookOptions {
  /** For local development, where receivers run on the same machine. */
  allowPrivateHosts: boolean;
  timeoutMs?: number;
  lookUp?: typeof lookup;
}

const defaultTimeoutMs = 10_000;

/** The `Webhooks` port, signed as Standard Webhooks. `send` does not throw; the id is the same on every retry. */
export function createWebhooks(options: WebhookOptions): Webhooks {
  return {
    async send({ url, id, at, secret, otherSecrets = [], body }) {
      try {
        // One signature per secret, separated by spaces: the receiver accepts any that it can check.
        const signature = [secret, ...otherSecrets]
          .map((one) => new Webhook(one).sign(id, new Date(at), body))
          .join(" ");
        const headers = {
          "content-type": "application/json",
          "content-length": String(Buffer.byteLength(body)),
          "user-agent": "Concierge",
          "webhook-id": id,
          "webhook-timestamp": String(Math.floor(at / 1000)),
          "webhook-signature": signature,
        };
        return outcomeOf(await post(new URL(url), headers, body, options));
      } catch (error) {
        if (error instanceof PrivateAddressError) return { kind: "refused", detail: error.message };
        return { kind: "failed", detail: error instanceof Error ? error.message : "unknown" };
      }
    },
  };
}

/** Redirects are not followed, so they count as failed. */
function outcomeOf(status: number): WebhookOutcome {
  if (status >= 200 && status < 300) return { kind: "delivered" };
  if (status === 410) return { kind: "refused", detail: "the receiver answered 410 (gone)" };
  return { kind: "failed", detail: `the receiver answered ${status}` };
}

function post(
  url: URL,
  headers: Record<string, string>,
  body: string,
  { allowPrivateHosts, timeoutMs = defaultTimeoutMs, lookUp }: WebhookOptions,
): Promise<number> {
  if (!allowPrivateHosts) checkLiteral(url.hostname);
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        method: "POST",
        headers,
        signal: AbortSignal.timeout(timeoutMs),
        agent: false,
        ...(!allowPrivateHosts && { lookup: publicLookup(lookUp) }),
      },
      (response) => {
        // Only the status is used.
        response.destroy();
        resolve(response.statusCode ?? 0);
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}
