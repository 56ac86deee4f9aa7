import type { Deps } from "../deps.ts";
import { createId } from "../ids.ts";
import type { Page } from "../ports.ts";
import type { AuditAction, AuditEntry } from "./schema.ts";

/** Who acts, and from where. */
export interface Actor {
  userId: string;
  keyId: string;
  ip: string | null;
  requestId: string;
}

const textMax = 256;

/**
 * Adds an entry to the audit log. Throws if it could not be written, and the caller then fails: nothing that is audited
 * takes effect, or hands out a credential, without an entry.
 */
export async function audit(
  { store, clock, config }: Pick<Deps, "store" | "clock" | "config">,
  actor: Actor,
  action: AuditAction,
  target: string,
  detail: Readonly<Record<string, string>> = {},
): Promise<void> {
  const now = clock.now();
  const entry: AuditEntry = {
    id: createId("audit", now),
    at: new Date(now).toISOString(),
    action,
    ...actor,
    ip: actor.ip === null ? null : actor.ip.slice(0, textMax),
    target: target.slice(0, textMax),
    detail: Object.fromEntries(Object.entries(detail).map(([name, text]) => [name, text.slice(0, textMax)])),
  };
  await store.addAudit(entry, now + config.auditRetentionMs);
}

export async function listAudit(
  { store, clock, config }: Pick<Deps, "store" | "clock" | "config">,
  options: { limit: number; after?: string; userId?: string; action?: string },
): Promise<Page<AuditEntry>> {
  return await store.listAudit({ ...options, since: clock.now() - config.auditRetentionMs });
}
