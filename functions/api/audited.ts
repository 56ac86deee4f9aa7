import { type AuditAction, type Deps, limits } from "@concierge/core";
import { audit } from "@concierge/core/audit/audit";
import type { Context } from "hono";
import type { Env } from "./env.ts";

type AuditDeps = Parameters<typeof audit>[0];

/**
 * Records what the caller is about to do. Called before the action, so that nothing takes effect without an entry: if the
 * entry cannot be written, the request fails. An entry therefore says that the action was requested and allowed.
 */
export async function record(
  deps: AuditDeps,
  c: Context<Env>,
  action: AuditAction,
  target: string,
  detail: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { userId, keyId } = c.get("caller");
  await audit(deps, { userId, keyId, ...whence(c) }, action, target, detail);
}

/** The same for a runner, which acts for its task's user. */
export async function recordGrant(
  deps: AuditDeps & Pick<Deps, "store">,
  c: Context<Env>,
  detail: Readonly<Record<string, string>>,
): Promise<void> {
  const { taskId, turn } = c.get("turn");
  const userId = (await deps.store.getTask(taskId))?.userId ?? limits.app;
  await audit(deps, { userId, keyId: "runner", ...whence(c) }, "push.grant", `${taskId}/${turn}`, detail);
}

function whence(c: Context<Env>) {
  return { ip: c.env?.sourceIp ?? null, requestId: c.get("requestId") };
}
