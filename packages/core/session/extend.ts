import type { AcquireDeps } from "../deps.ts";
import { AppError, ProviderError } from "../errors.ts";
import type { SessionName } from "../ports.ts";
import { asRead } from "./acquire.ts";
import type { Session } from "./schema.ts";

/** Extends the sandbox's life, at most to the plan's maximum, and keeps it that long even if it is idle. */
export async function extendSession(
  deps: AcquireDeps,
  { userId, sessionKey }: SessionName,
  durationMs: number,
): Promise<Session> {
  const { store, provider, clock, config } = deps;
  for (;;) {
    const session = await store.getSession(userId, sessionKey);
    const sandbox = session?.sandbox;
    if (!session || sandbox?.state !== "ready") throw notReady(sessionKey);
    const now = clock.now();
    const end = sandbox.startedAt + config.sandboxMaxMs;
    const byMs = Math.min(sandbox.expiresAt + durationMs, end) - sandbox.expiresAt;
    if (byMs > 0) await extendSandbox(provider, sandbox, byMs, sessionKey);
    const outcome = await store.changeSession(userId, sessionKey, asRead(session), {
      set: {
        lastUsedAt: now,
        keptUntil: now + durationMs,
        isIdle: session.isIdle ?? session.lease === undefined,
        dueAt: now + Math.max(config.sessionIdleMs, durationMs),
        sandbox: { ...sandbox, expiresAt: sandbox.expiresAt + Math.max(byMs, 0), extendedAt: now },
      },
    });
    if (outcome.won) return outcome.item;
  }
}

async function extendSandbox(
  provider: AcquireDeps["provider"],
  sandbox: { name: string; sessionId: string },
  byMs: number,
  sessionKey: string,
): Promise<void> {
  try {
    await provider.extend(sandbox, byMs);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    if (error.kind === "gone" || error.kind === "stopped") throw notReady(sessionKey);
    // The plan allows no more: the sandbox keeps the life it has.
    if (error.kind !== "refused") throw error;
  }
}

function notReady(sessionKey: string): AppError {
  return new AppError("session_not_ready", `Session ${sessionKey} has no running sandbox.`);
}
