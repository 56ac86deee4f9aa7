import {
  type Clock,
  type Execution,
  type ExecutionResult,
  type Provider,
  ProviderError,
  type ProviderFailure,
  type SessionName,
  type Task,
} from "@concierge/core";
import { createMemoryProvider } from "@concierge/core/testing";
import { createMemoryStore } from "@concierge/store";
import { SandboxSessionManager, type SandboxSessionManagerConfig } from "../index.ts";

export const minute = 60_000;
export const hour = 60 * minute;

type Call = keyof Provider;

/** A store and a provider in memory, with a clock that the test moves. */
export function createTestPool({ setup }: { setup?: () => ExecutionResult } = {}) {
  let now = Date.parse("2026-11-01T12:00:00Z");
  const clock: Clock = {
    now: () => now,
    // A plain sleep moves the time and lets others run. A sleep with a signal moves no time.
    sleep: async (ms, signal) => {
      if (signal) return await sleepUntil(now + ms, signal);
      now += ms;
      await new Promise((next) => setImmediate(next));
    },
  };
  const sleepers = new Set<{ at: number; wake: () => void }>();
  const sleepUntil = (at: number, signal: AbortSignal) =>
    new Promise<void>((wake) => {
      sleepers.add({ at, wake });
      signal.addEventListener("abort", () => wake());
    });
  const store = createMemoryStore({ clock });
  const executions: Execution[] = [];
  const onExec = (_sandbox: string, execution: Execution) => {
    executions.push(execution);
    return setup?.() ?? { exitCode: 0, stdout: "", stderr: "", truncated: false };
  };
  const { provider: memory, world } = createMemoryProvider({ clock, onExec });
  const counts = new Map<string, number>();
  const failures: { call: Call; kind: ProviderFailure; left: number; hasBegun: boolean }[] = [];
  const meanwhile = new Map<string, () => Promise<void>>();

  const watched = (call: Call) => {
    const does = memory[call] as (...given: unknown[]) => Promise<unknown>;
    return async (...given: unknown[]) => {
      counts.set(call, (counts.get(call) ?? 0) + 1);
      const failure = failures.find((one) => one.call === call && one.left > 0);
      if (failure) {
        failure.left -= 1;
        const { kind, hasBegun } = failure;
        throw new ProviderError(kind, `The provider could not ${call}.`, { hasBegun });
      }
      await takeOut(meanwhile, call)?.();
      return await does(...given);
    };
  };
  const calls = Object.keys(memory) as Call[];
  const provider = Object.fromEntries(calls.map((call) => [call, watched(call)])) as unknown as Provider;

  return {
    clock,
    store,
    provider,
    world,
    executions,
    now: () => now,
    advance: (ms: number) => {
      now += ms;
    },
    /** Moves the time and wakes what slept until then. */
    async pass(ms: number): Promise<void> {
      now += ms;
      for (const sleeper of sleepers) {
        if (sleeper.at > now || !sleepers.delete(sleeper)) continue;
        sleeper.wake();
      }
      await new Promise((next) => setImmediate(next));
    },
    manager: (over: Partial<SandboxSessionManagerConfig> = {}) =>
      new SandboxSessionManager({ store, provider, clock, ...over }),
    /** How often this provider method was called. */
    count: (call: Call) => counts.get(call) ?? 0,
    /** This provider method fails, this many times. */
    fail: (call: Call, kind: ProviderFailure, times = 1, { hasBegun = false } = {}) =>
      void failures.push({ call, kind, left: times, hasBegun }),
    /** Runs once, just before the provider's next call of this method. */
    justBefore: (call: Call, what: () => Promise<void>) => void meanwhile.set(call, what),
    session: async ({ userId, sessionKey }: SessionName) => await store.getSession(userId, sessionKey),
    slots: async () => (await store.listSlots()).map(({ name }) => name),

    /** A turn of a new task holds the session. Returns a function that ends it. */
    async hold({ userId, sessionKey }: SessionName, taskId = `task ${sessionKey}`) {
      await store.createTask(runningTask({ id: taskId, userId, sessionKey, at: now }));
      const lease = { taskId, turn: 1, at: now };
      const seen = await store.getSession(userId, sessionKey);
      const change = { set: { lease, expiresAt: now + 24 * hour } };
      await store.changeSession(userId, sessionKey, { lease: seen?.lease ?? null }, change);
      return async () => {
        const state = { status: "succeeded", endedAt: now, result: null } as const;
        await store.changeTask(taskId, { turn: 1, status: ["running"] }, { set: { state } });
      };
    },
  };
}

export type TestPool = ReturnType<typeof createTestPool>;

function takeOut<V>(map: Map<string, V>, key: string): V | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}

function runningTask(named: { id: string; userId: string; sessionKey: string; at: number }): Task {
  const { at, ...names } = named;
  return {
    ...names,
    agent: "shell",
    prompt: "true",
    keepAlive: true,
    limits: { maxDurationMs: hour, inactivityMs: hour },
    metadata: {},
    turn: 1,
    state: { status: "running", commandId: "command" },
    createdAt: at,
    deadlineAt: at + hour,
    lastActivityAt: at,
    outputSeq: 0,
    past: [],
    phases: [],
    phaseCount: 0,
    notices: [],
    expiresAt: at + 1000 * hour,
  };
}
