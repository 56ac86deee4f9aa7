import type { Provider, SandboxRef, Store } from "@concierge/core";
import type { MemoryWorld } from "@concierge/core/testing";
import type { Random } from "./random.ts";
import type { Actor, Call, Scheduler } from "./scheduler.ts";

/** A port each of whose calls is a step of the actor. */
export function stepped<T extends object>(
  scheduler: Scheduler,
  actor: Actor,
  port: Call["port"],
  target: T,
  timeLeftMs = () => Number.POSITIVE_INFINITY,
): T {
  return new Proxy(target, {
    get(_, method) {
      const effect: unknown = Reflect.get(target, method);
      if (typeof effect !== "function" || typeof method !== "string") return effect;
      return (...given: unknown[]) => {
        // A copy of what is sent: the sender may change its own object later.
        const sent = given.map((value) => (typeof value === "object" ? structuredClone(value) : value));
        const label = `${port}.${method} ${describe(sent)}`;
        const call = { port, method, given: sent, label, timeLeftMs: timeLeftMs() };
        return scheduler.call(actor, call, () => Reflect.apply(effect, target, sent));
      };
    },
  });
}

/** A stale index: it returns older results, or leaves out the newest items. */
export function withStaleIndex(store: Store, random: Random, staleness: () => number): Store {
  const tasks: { id: string; userId: string }[][] = [[]];
  const idle: { userId: string; key: string }[][] = [[]];
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
    listIdleSessions: async (limit, userId) => seen(idle, await store.listIdleSessions(limit, userId)),
  };
}

/** Sandboxes that stop just before something is done in them. */
export function withStops(provider: Provider, sandboxes: MemoryWorld, stopsNow: () => boolean): Provider {
  const stoppable =
    <T extends unknown[], R>(method: (sandbox: SandboxRef, ...given: T) => Promise<R>) =>
    async (sandbox: SandboxRef, ...given: T): Promise<R> => {
      if (stopsNow()) sandboxes.stop(sandbox.name);
      return await method(sandbox, ...given);
    };
  return {
    ...provider,
    writeFiles: stoppable(provider.writeFiles),
    guardNetwork: stoppable(provider.guardNetwork),
    launch: stoppable(provider.launch),
    extend: stoppable(provider.extend),
    snapshot: stoppable(provider.snapshot),
    sweep: stoppable(provider.sweep),
    ask: stoppable(provider.ask),
    exec: stoppable(provider.exec),
  };
}

function describe(given: readonly unknown[]): string {
  return given
    .map((value) => (typeof value === "string" ? value : shorten(JSON.stringify(value) ?? "")))
    .join(" ");
}

/** Sealed secrets differ in every run and decide nothing. */
function shorten(text: string): string {
  const plain = text
    .replace(/"sealed":"[^"]*"/g, '"sealed":"…"')
    .replace(/"CONCIERGE_TURN":".*"/g, '"CONCIERGE_TURN":"…"');
  return plain.length > 300 ? `${plain.slice(0, 300)}…` : plain;
}
