import type { SealingDeps } from "../deps.ts";
import { AppError } from "../errors.ts";

type SecretDeps = Pick<SealingDeps, "store" | "clock" | "sealer">;

/** The secrets that sign a user's webhooks: the current one first, then those that were replaced a short time ago. */
export async function webhookSecretsOf(
  { store, clock, sealer }: SecretDeps,
  userId: string,
): Promise<readonly string[]> {
  const { version = 0, previousUntil = 0 } = (await store.getWebhookSecret(userId)) ?? {};
  const versions = previousUntil > clock.now() ? [version, version - 1] : [version];
  return versions.flatMap((one) => sealer.webhookSecrets(userId, one));
}

/** Replaces the secret. Messages are signed with the old one as well for `overlapMs`. */
export async function rotateWebhookSecret(
  deps: SecretDeps,
  userId: string,
  overlapMs: number,
): Promise<{ secret: string; previousUntil: number }> {
  const { version = 0 } = (await deps.store.getWebhookSecret(userId)) ?? {};
  const previousUntil = deps.clock.now() + overlapMs;
  if (!(await deps.store.putWebhookSecret(userId, { version: version + 1, previousUntil })))
    throw new AppError("secret_changed", "Another request replaced the secret at the same time.");
  const [secret = ""] = deps.sealer.webhookSecrets(userId, version + 1);
  return { secret, previousUntil };
}
