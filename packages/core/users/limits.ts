import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";
import type { Limits } from "../task/schema.ts";
import type { StoredLimits, UserLimits, UserLimitsRequest } from "./schema.ts";

/** A user's ceilings: the stored values over the operator's defaults. */
export async function limitsOf(
  { store, config }: Pick<Deps, "store" | "config">,
  userId: string,
): Promise<UserLimits> {
  return withStored(config.userLimits, (await store.getUserLimits(userId)) ?? {});
}

/** Changes the given ceilings of a user and leaves the others. */
export async function changeLimits(
  deps: Pick<Deps, "store" | "config">,
  userId: string,
  request: UserLimitsRequest,
): Promise<UserLimits> {
  const stored = { ...(await deps.store.getUserLimits(userId)) };
  const given = Object.entries(request).filter(([, value]) => value !== undefined);
  const changed: [string, unknown][] = Object.entries({ ...stored, ...Object.fromEntries(given) });
  const kept = Object.fromEntries(changed.filter(([, value]) => value !== "default")) as StoredLimits;
  await deps.store.putUserLimits(userId, kept);
  return withStored(deps.config.userLimits, kept);
}

export function withStored(defaults: UserLimits, stored: StoredLimits): UserLimits {
  return { ...defaults, ...stored };
}

/**
 * The defaults of a turn under a user's ceilings. What the request asks for beyond a ceiling is refused; a default
 * beyond it is cut. A task without a budget gets the ceiling as its budget.
 */
export function underCeilings<Defaults extends Limits & { sandboxMaxMs: number }>(
  asked: Partial<Record<keyof Limits, number | undefined>> | undefined,
  defaults: Defaults,
  { maxDurationMs, maxInactivityMs, maxCostUsd }: UserLimits,
): Defaults {
  const ceilings = { maxDurationMs, inactivityMs: maxInactivityMs, maxCostUsd };
  for (const [name, ceiling] of Object.entries(ceilings) as [keyof Limits, number | null][]) {
    const wanted = asked?.[name];
    if (wanted === undefined || ceiling === null || wanted <= ceiling) continue;
    const path = `limits.${name}`;
    const message = `must be at most ${ceiling}, the limit of your user`;
    throw new AppError("invalid_request", `${path}: ${message}`, { issues: [{ path, message }] });
  }
  const budget = Math.min(
    defaults.maxCostUsd ?? Number.POSITIVE_INFINITY,
    maxCostUsd ?? Number.POSITIVE_INFINITY,
  );
  return {
    ...defaults,
    maxDurationMs: Math.min(defaults.maxDurationMs, maxDurationMs),
    inactivityMs: Math.min(defaults.inactivityMs, maxInactivityMs),
    ...(Number.isFinite(budget) && { maxCostUsd: budget }),
  };
}
