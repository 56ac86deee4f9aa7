import { createHash } from "node:crypto";
import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import { idempotencyMs } from "../limits.ts";

/** The task id stored under this key, or the new one. It is written first, so a retry resumes the same start. */
export async function plannedBefore(
  { store, clock }: Deps,
  scope: string,
  request: unknown,
  taskId: string,
): Promise<string> {
  const requestHash = hashOf(request);
  const expiresAt = clock.now() + idempotencyMs;
  const { item } = await store.claimIdempotencyKey(scope, { taskId, turn: 1, requestHash, expiresAt });
  if (!item) throw new AppError("internal", "The idempotency key could not be read.");
  if (item.requestHash === requestHash) return item.taskId;
  throw new AppError("idempotency_conflict", "The idempotency key was already used with a different body.");
}

/** Hashes JSON with sorted keys, so that equal requests have equal hashes. */
export function hashOf(request: unknown): string {
  const canonical = JSON.stringify(request, (_key, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
  return createHash("sha256").update(canonical).digest("base64");
}
