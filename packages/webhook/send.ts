import type { lookup } from "node:dns";
import type { WebhookOutcome, Webhooks } from "@concierge/core";
import { PrivateAddressError, sendRequest } from "@concierge/public-address/request";
import { Webhook } from "standardwebhooks";

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

async function post(
  url: URL,
  headers: Record<string, string>,
  body: string,
  { timeoutMs = defaultTimeoutMs, ...guard }: WebhookOptions,
): Promise<number> {
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await sendRequest(url, { method: "POST", headers, body, signal, ...guard });
  // Only the status is used.
  response.destroy();
  return response.statusCode ?? 0;
}
