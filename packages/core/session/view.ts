import * as z from "zod";
import { origins } from "../task/schema.ts";
import type { Session } from "./schema.ts";

const instant = z.iso.datetime();

/** A session as the API shows it. */
export const sessionViewSchema = z
  .lazy(() =>
    z.object({
      key: z.string(),
      epoch: z.int(),
      /** It has a sandbox that a turn can begin in at once. */
      isReady: z.boolean(),
      sandbox: z
        .object({
          name: z.string(),
          state: z.enum(["creating", "ready", "releasing"]),
          origin: z.enum(origins).nullable(),
          createdAt: instant,
          expiresAt: instant.nullable(),
        })
        .nullable(),
      /** The turn that has it. */
      lease: z.object({ taskId: z.string(), turn: z.int() }).nullable(),
      /** What the sandbox said, where it was asked. */
      health: z.enum(["healthy", "resumable", "gone", "unknown"]).nullable(),
      environment: z
        .object({
          probedAt: instant,
          versions: z.record(z.string(), z.string()),
          agents: z.array(z.string()),
          variables: z.array(z.string()),
        })
        .nullable(),
      createdAt: instant,
      lastUsedAt: instant,
      /** How long nobody has used it; null while a turn has it. */
      idleMs: z.int().nullable(),
      keptUntil: instant.nullable(),
      resetAt: instant.nullable(),
    }),
  )
  .meta({ id: "Session" });

export type SessionView = z.infer<typeof sessionViewSchema>;

export function viewSession(
  session: Session,
  { held, idleSince }: { held: boolean; idleSince: number },
  health: SessionView["health"],
  now: number,
): SessionView {
  const { key, epoch, sandbox, lease, environment, createdAt, lastUsedAt, keptUntil, resetAt } = session;
  const isCurrent = sandbox?.state === "ready" && environment?.sandbox === sandbox.sessionId;
  return {
    key,
    epoch,
    isReady:
      sandbox?.state === "ready" && (health === "healthy" || (health === null && sandbox.expiresAt > now)),
    sandbox: sandbox
      ? {
          name: sandbox.name,
          state: sandbox.state,
          origin: sandbox.state === "ready" ? sandbox.origin : null,
          createdAt: iso(sandbox.createdAt),
          expiresAt: sandbox.state === "ready" ? iso(sandbox.expiresAt) : null,
        }
      : null,
    lease: held && lease ? { taskId: lease.taskId, turn: lease.turn } : null,
    health,
    environment:
      environment && isCurrent
        ? {
            probedAt: iso(environment.probedAt),
            versions: environment.versions,
            agents: environment.agents,
            variables: environment.variables,
          }
        : null,
    createdAt: iso(createdAt),
    lastUsedAt: iso(lastUsedAt),
    idleMs: held ? null : Math.max(now - idleSince, 0),
    keptUntil: keptUntil === undefined ? null : iso(keptUntil),
    resetAt: resetAt === undefined ? null : iso(resetAt),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
