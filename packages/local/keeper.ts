/** Keeps one process running: starts it, starts it again when it dies, and knows which one to talk to now. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child } from "./child.ts";

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5000;
/** A process that lived this long did not die of its start. */
const HEALTHY_MS = 10_000;

export interface Running {
  child: Child;
  port: number;
}

export interface KeeperOptions {
  name: string;
  spawn: (lastPort: number) => Child;
  /** Makes a fresh process usable before anyone is given it. */
  prepare?: (port: number) => Promise<void>;
  /** How often it may die before it was ever ready. */
  startAttempts: number;
  log: (line: string) => void;
}

export interface Keeper {
  /** Settles with the first process that is ready, or rejects when none ever was. */
  readonly started: Promise<Running>;
  readonly current: Running | undefined;
  whenReady(): Promise<Running>;
  /** Starts another process in the place of this one, which is left to the caller to stop. */
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
      if (Date.now() - startedAt > HEALTHY_MS) deaths = 0;
      deaths++;
      if (!everReady && deaths >= options.startAttempts) return started.reject(death);
      const delayMs = deaths === 1 ? 0 : Math.min(FIRST_BACKOFF_MS * 2 ** (deaths - 2), MAX_BACKOFF_MS);
      options.log(`${death.message}; starting it again${delayMs ? ` in ${delayMs} ms` : ""}`);
      await sleep(delayMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  /** Until the process dies, which is returned, or is replaced. */
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
