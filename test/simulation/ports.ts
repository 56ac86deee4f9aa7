import type { Store } from "@concierge/core";
import type { Random } from "./random.ts";
import type { Actor, Call, Scheduler } from "./scheduler.ts";

/** A port each of whose calls is a step of the actor's. */
export function stepped<T extends object>(
  scheduler: Scheduler,
  actor: Actor,
  port: Call["port"],
  target: T,
): T {
  return new Proxy(target, {
    get(_, method) {
      const effect: unknown = Reflect.get(target, method);
      if (typeof effect !== "function" || typeof method !== "string") return effect;
      return (...given: unknown[]) => {
        // What is sent is sent as it is now, whatever becomes of the sender's own copy.
        const sent = given.map((value) => (value instanceof Uint8Array ? value : structuredClone(value)));
        const label = `${port}.${method} ${describe(sent)}`;
        const call = { port, method, given: sent, label };
        return scheduler.call(actor, call, () => Reflect.apply(effect, target, sent));
      };
    },
  });
}

/** An index that may be behind: it gives what it gave before, or leaves out what came last. */
export function withStaleIndex(store: Store, random: Random, staleness: () => number): Store {
  const tasks: string[][] = [[]];
  const sessions: { userId: string; key: string }[][] = [[]];
  const seen = <T>(history: T[][], fresh: T[]): T[] => {
    history.push(fresh);
    if (!random.chance(staleness())) return fresh;
    return random.pick(history.slice(-4));
  };
  return {
    ...store,
    listDueTasks: async (now, limit) => seen(tasks, await store.listDueTasks(now, limit)),
    listDueSessions: async (now, limit) => seen(sessions, await store.listDueSessions(now, limit)),
  };
}

function describe(given: readonly unknown[]): string {
  return given
    .map((value) => (typeof value === "string" ? value : shorten(JSON.stringify(value) ?? "")))
    .join(" ");
}

/** Sealed secrets are new in every run, and no part of what is decided. */
function shorten(text: string): string {
  const plain = text
    .replace(/"sealed":"[^"]*"/g, '"sealed":"…"')
    .replace(/"CONCIERGE_TURN":".*"/g, '"CONCIERGE_TURN":"…"');
  return plain.length > 300 ? `${plain.slice(0, 300)}…` : plain;
}
