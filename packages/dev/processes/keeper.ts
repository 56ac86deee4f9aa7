/** Keeps one process running: starts it, restarts it when it dies, and knows the current one. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child } from "./child.ts";

const firstBackoffMs = 100;
const maxBackoffMs = 5000;
/** After this time, a death does not count as a failed start. */
const healthyAfterMs = 10_000;

export interface Running {
  child: Child;
  port: number;
}

export interface KeeperOptions {
  name: string;
  spawn: (lastPort: number) => Child;
  /** Runs after each start, before the process is used. */
  prepare?: (port: number) => Promise<void>;
  /** Failed starts before `started` rejects. */
  startAttempts: number;
  log: (line: string) => void;
}

export interface Keeper {
  /** Resolves with the first process that is ready. Rejects if none became ready. */
  readonly started: Promise<Running>;
  readonly current: Running | undefined;
  whenReady(): Promise<Running>;
  /** Starts another process. The caller stops the old one. */
  replace(running: Running): void;
  processes(): { name: string; pid: number }[];
  stop(): Promise<void>;
}

export function keepRunning(options: KeeperOptions): Keeper {
  const stopping = new AbortController();
  const alive = new Set<Child>();
  const started = Promise.withResolvers<Running>();
  started.promise.catch(() => {});
  let gate = newGate();
  let current: Running | undefined;
  let replaced = Promise.withResolvers<void>();
  let lastPort = 0;
  let everReady = false;
  const finished = run();

  return {
    started: started.promise,
    get current() {
      return current;
    },
    whenReady: () => (current ? Promise.resolve(current) : gate.promise),
    replace(running) {
      if (current === running) replaced.resolve();
    },
    processes: () => [...alive].map(({ name, pid }) => ({ name, pid })),
    async stop() {
      stopping.abort();
      const stopped = new Error(`${options.name} was stopped`);
      started.reject(stopped);
      gate.reject(stopped);
      await Promise.all([...alive].map((child) => child.stop()));
      await finished;
    },
  };

  async function run(): Promise<void> {
    let deaths = 0;
    while (!stopping.signal.aborted) {
      const startedAt = Date.now();
      const death = await runOnce();
      if (stopping.signal.aborted) return;
      if (!death) continue;
      if (Date.now() - startedAt > healthyAfterMs) deaths = 0;
      deaths++;
      if (!everReady && deaths >= options.startAttempts) return started.reject(death);
      const delayMs = deaths === 1 ? 0 : Math.min(firstBackoffMs * 2 ** (deaths - 2), maxBackoffMs);
      options.log(`${death.message}; restarting${delayMs ? ` in ${delayMs} ms` : ""}`);
      await sleep(delayMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  /** Returns the error when the process dies, or nothing when it is replaced. */
  async function runOnce(): Promise<Error | undefined> {
    replaced = Promise.withResolvers();
    const child = options.spawn(lastPort);
    alive.add(child);
    const died = child.exited.then((how) => {
      alive.delete(child);
      return new Error(`${options.name} ${how}`);
    });
    try {
      lastPort = await child.ready;
      await options.prepare?.(lastPort);
    } catch (error) {
      if (alive.has(child)) started.reject(error);
      await child.stop();
      return error instanceof Error ? error : new Error(String(error));
    }
    const running = { child, port: lastPort };
    current = running;
    everReady = true;
    started.resolve(running);
    gate.resolve(running);
    const death = await Promise.race([died, replaced.promise.then(() => undefined)]);
    current = undefined;
    gate = newGate();
    return death;
  }

  function newGate() {
    const fresh = Promise.withResolvers<Running>();
    fresh.promise.catch(() => {});
    if (stopping.signal.aborted) fresh.reject(new Error(`${options.name} was stopped`));
    return fresh;
  }
}
