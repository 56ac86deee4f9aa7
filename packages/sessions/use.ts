import type { LiveSandbox, RoomDeps, Session, SessionName } from "@concierge/core";
import { decideLife, decideRoom } from "@concierge/core/verbs";

/**
 * Marks the session as used and gives its sandbox, by one write and nothing else, for whoever finds out by using it
 * whether it is still there. No session where there is none; no sandbox where it has none, or where more has to be done
 * before it can be used for so long.
 */
export async function useAsKnown(
  { store, clock, config }: RoomDeps,
  { userId, sessionKey }: SessionName,
  until: number,
): Promise<{ session?: Session; sandbox?: LiveSandbox }> {
  const now = clock.now();
  // Nothing but this: whoever looks at it when it is due goes by it, and its life is pushed out with the sandbox's.
  const used = await store.changeSession(userId, sessionKey, { isOpen: true }, { set: { lastUsedAt: now } });
  if (!used.won) return {};
  const session = used.item;
  const verdict = decideRoom(session, nobody, now);
  if (verdict.kind !== "probe") return { session };
  const { sessionIdleMs: idleMs, sandboxMaxMs: maxMs } = config;
  const life = decideLife(verdict.sandbox, { until, idleMs, maxMs }, now);
  return life.kind === "lasts" ? { session, sandbox: verdict.sandbox } : { session };
}

const nobody = "";

/** A command that runs is use, however little is heard of it: until this is disposed of, the session is not idle. */
export function keepInUse(
  { store, clock, config }: RoomDeps,
  { userId, sessionKey }: SessionName,
): AsyncDisposable {
  const done = new AbortController();
  const marking = (async () => {
    for (;;) {
      await clock.sleep(config.sessionIdleMs / 3, done.signal);
      if (done.signal.aborted) return;
      const set = { lastUsedAt: clock.now() };
      await store.changeSession(userId, sessionKey, { isOpen: true }, { set });
    }
  })().catch(() => {
    // The command goes on; at the worst its sandbox is taken for idle.
  });
  return {
    async [Symbol.asyncDispose]() {
      done.abort();
      await marking;
    },
  };
}
