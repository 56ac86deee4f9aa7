import { type LiveSandbox, limits, type RoomDeps, type Session, type SessionName } from "@concierge/core";
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

/** A command that runs is use, however little is heard of it: until this is disposed of, nobody gives its sandbox up. */
export function keepInUse({ store, clock }: RoomDeps, { userId, sessionKey }: SessionName): AsyncDisposable {
  const done = new AbortController();
  let usedUntil: number | undefined;
  let writing: Promise<unknown> = Promise.resolve();
  const mark = async () => {
    const now = clock.now();
    const set = { lastUsedAt: now, usedUntil: now + limits.execMarkMs };
    await store.changeSession(userId, sessionKey, { isOpen: true }, { set });
    usedUntil = set.usedUntil;
  };
  void (async () => {
    // Most commands are over before it is worth a write.
    for (let pause: number = limits.execUnmarkedMs; ; pause = limits.execMarkMs / 3) {
      await clock.sleep(pause, done.signal);
      if (done.signal.aborted) return;
      // What can not be marked is not the command's fault: at the worst its sandbox is given up.
      writing = mark().catch(() => {});
      await writing;
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      done.abort();
      await writing;
      if (usedUntil === undefined) return;
      const change = { set: { lastUsedAt: clock.now() }, remove: ["usedUntil"] } as const;
      // At the worst it is not given up for a moment more.
      await store.changeSession(userId, sessionKey, { usedUntil }, change).catch(() => {});
    },
  };
}
