import * as z from "zod/mini";

export const auditActions = [
  "key.create",
  "key.revoke",
  "key.rotate",
  "flags.change",
  "limits.change",
  "webhook_secret.rotate",
  "push.grant",
  "task.stop",
  "task.delete",
  "session.delete",
  "user.delete",
] as const;

export type AuditAction = (typeof auditActions)[number];

/** Who did what, when and from where. */
export const auditEntrySchema = z
  .lazy(() =>
    z.object({
      id: z.string(),
      at: z.iso.datetime(),
      action: z.enum(auditActions),
      /** The user who acted. */
      userId: z.string(),
      /** The key that was used; `runner` for a turn's runner. */
      keyId: z.string(),
      ip: z.nullable(z.string()),
      requestId: z.string(),
      /** What was acted on: an id, a session key or a user. */
      target: z.string(),
      /** What was asked for, without secrets. */
      detail: z.record(z.string(), z.string()),
    }),
  )
  .register(z.globalRegistry, { id: "AuditEntry" });

export type AuditEntry = z.infer<typeof auditEntrySchema>;
