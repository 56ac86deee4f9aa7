import * as z from "zod/mini";
import { origins } from "../task/schema.ts";
import type { Session } from "./schema.ts";

const instant = z.iso.datetime();

export const sessionViewSchema = z
  .lazy(() =>
    z.object({
      key: z.string(),
      epoch: z.int(),
      /** A turn can start in its sandbox at once. */
      isReady: z.boolean(),
      sandbox: z.nullable(
        z.object({
          name: z.string(),
          state: z.enum(["creating", "ready", "releasing"]),
          origin: z.nullable(z.enum(origins)),
          createdAt: instant,
          expiresAt: z.nullable(instant),
        }),
      ),
      /** The turn that holds it. */
      lease: z.nullable(z.object({ taskId: z.string(), turn: z.int() })),
      /** The sandbox's health, if it was probed. */
      health: z.nullable(z.enum(["healthy", "resumable", "gone", "unknown"])),
      environment: z.nullable(
        z.object({
          probedAt: instant,
          versions: z.record(z.string(), z.string()),
          agents: z.array(z.string()),
          variables: z.array(z.string()),
        }),
      ),
      createdAt: instant,
      lastUsedAt: instant,
      /** How long the session has been idle; null while a turn holds it. */
      idleMs: z.nullable(z.int()),
      keptUntil: z.nullable(instant),
      resetAt: z.nullable(instant),
    }),
  )
  .register(z.globalRegistry, { id: "Session" });

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
