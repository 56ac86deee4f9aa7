import { AppError, ProviderError, type RoomDeps, type Session, type SessionName } from "@concierge/core";
import { seen } from "./room.ts";

/** Pushes the expiry out as far as the plan lets it, and keeps the room for so long though nobody uses it. */
export async function extend(
  deps: RoomDeps,
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
    if (byMs > 0) await push(provider, sandbox, byMs, sessionKey);
    const outcome = await store.changeSession(userId, sessionKey, seen(session), {
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

async function push(
  provider: RoomDeps["provider"],
  sandbox: { name: string; sessionId: string },
  byMs: number,
  sessionKey: string,
): Promise<void> {
  try {
    await provider.extend(sandbox, byMs);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    if (error.kind === "gone" || error.kind === "stopped") throw notReady(sessionKey);
    // The plan's end is nearer than was thought: it lives as long as it lives.
    if (error.kind !== "refused") throw error;
  }
}

function notReady(sessionKey: string): AppError {
  return new AppError("session_not_ready", `Session ${sessionKey} has no sandbox that runs.`);
}
