import { createHash } from "node:crypto";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { idempotencyMs } from "../limits.ts";

/** The task this key already stands for, or the one now planned: written first, so a retry goes on where we stopped. */
export async function plannedBefore(
  { store, clock }: Deps,
  scope: string,
  request: unknown,
  planned: { taskId: string; turn: number },
): Promise<{ taskId: string; turn: number }> {
  const requestHash = createHash("sha256").update(canonical(request)).digest("base64");
  const expiresAt = clock.now() + idempotencyMs;
  const { item } = await store.claimIdempotencyKey(scope, { ...planned, requestHash, expiresAt });
  if (!item) throw new AppError("internal", "The idempotency key could not be read.");
  if (item.requestHash === requestHash) return item;
  throw new AppError("idempotency_conflict", "The idempotency key was used before, with another body.");
}

/** JSON with its names in order, so that the same request written otherwise is the same request. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
