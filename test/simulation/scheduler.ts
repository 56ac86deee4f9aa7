import { createHash } from "node:crypto";

/** Whoever takes steps: one invocation of a function, a runner, a user. What is dead takes none. */
export interface Actor {
  readonly name: string;
  isAlive(): boolean;
  crash(): void;
}

/** What happens to a call at the moment it is made. */
export type Fault =
  | { kind: "none" }
  | { kind: "delay"; ms: number }
  | { kind: "answer late"; ms: number }
  | { kind: "fail before"; error: Error }
  | { kind: "fail after"; error: Error }
  | { kind: "crash before" }
  | { kind: "crash after" }
  /** The answer is lost, and the SDK asks again: the caller hears what the second request was told. */
  | { kind: "repeat" }
  /**
   * Nobody answers until the caller's own time-out; what was asked for happens later all the same, or never. The function
   * may die there (`isDeadly`), without a catch block of its own being run.
   */
  | { kind: "hang"; error: Error; timeoutMs: number; commitMs: number | undefined; isDeadly: boolean };

/** One call of a port. */
export interface Call {
  port: "store" | "provider" | "work" | "timers" | "git";
  method: string;
  given: readonly unknown[];
  label: string;
  /** How much time its caller has left for it. */
  timeLeftMs: number;
}

/** Something that waits for its time: an actor's next step, or an event of the world. */
export interface Entry {
  readonly label: string;
  readonly actor: Actor | undefined;
  dueAt: number;
  fire(): Promise<void> | void;
}

/** Everything that is left to chance, or to whoever enumerates the choices. */
export interface Plan {
  latencyMs(): number;
  pick(runnable: readonly Entry[]): Entry;
  fault(call: Call): Fault;
}

export interface Scheduler {
  now(): number;
  /** An actor's call: it happens when the scheduler picks it, with whatever fault the plan has for it. */
  call<T>(actor: Actor, call: Call, effect: () => Promise<T>): Promise<T>;
  sleep(actor: Actor, label: string, ms: number, signal?: AbortSignal): Promise<void>;
  /** An event of the world, which no crash keeps from happening. Gives what calls it off. */
  after(ms: number, label: string, fire: () => Promise<void> | void): () => void;
  /** Takes steps until nothing is left to do before `until`. */
  run(until: number): Promise<void>;
  /** What could be picked now, where the next step is left to someone else. */
  runnable(): Promise<readonly Entry[]>;
  /** All that waits, with its time. */
  waiting(): readonly Entry[];
  pass(ms: number): void;
  fire(entry: Entry): Promise<void>;
  use(plan: Plan): void;
  steps(): number;
  hash(): string;
}

export interface SchedulerOptions {
  startAt: number;
  plan: Plan;
  /** After each step: true ends the run. */
  onStep: () => boolean;
  onTrace?: ((line: string) => void) | undefined;
  /** What an undisturbed call was answered, an error included: with its own steps, all that an actor knows. */
  onAnswer?: ((actor: Actor, call: Call, answer: unknown) => void) | undefined;
}

/**
 * One thing at a time. Every await of the core's ends in a port, every port's call is parked here, and between two
 * picks only promises are resolved, no time passes and nothing is left to the machine.
 */
export function createScheduler({
  startAt,
  onStep,
  onTrace,
  onAnswer,
  ...options
}: SchedulerOptions): Scheduler {
  const digest = createHash("sha256");
  let plan = options.plan;
  let entries: Entry[] = [];
  let now = startAt;
  let steps = 0;

  const trace = (line: string): void => {
    const text = `${String(now - startAt).padStart(8)} ${line}`;
    digest.update(text);
    onTrace?.(text);
  };

  const park = (entry: Entry): Entry => {
    entries.push(entry);
    return entry;
  };

  const after = (ms: number, label: string, fire: () => Promise<void> | void): (() => void) => {
    const entry = park({ label, actor: undefined, dueAt: now + ms, fire });
    return () => {
      entries = entries.filter((other) => other !== entry);
    };
  };

  const call = <T>(actor: Actor, what: Call, effect: () => Promise<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const label = `${actor.name}: ${what.label}`;
      const begin = async (): Promise<void> => {
        const fault = plan.fault(what);
        if (fault.kind !== "none") trace(`  ! ${fault.kind}`);
        switch (fault.kind) {
          case "none":
            return await effect().then(
              (value) => {
                onAnswer?.(actor, what, value);
                resolve(value);
              },
              (error: unknown) => {
                onAnswer?.(actor, what, error);
                reject(error);
              },
            );
          case "delay":
            park({ label, actor, dueAt: now + fault.ms, fire: () => effect().then(resolve, reject) });
            return;
          case "answer late": {
            const answer = await effect().then(
              (value) => () => resolve(value),
              (error: unknown) => () => reject(error),
            );
            park({ label: `${label} answers`, actor, dueAt: now + fault.ms, fire: answer });
            return;
          }
          case "fail before":
            return reject(fault.error);
          case "fail after":
            await effect().catch(() => {});
            return reject(fault.error);
          case "repeat":
            await effect().catch(() => {});
            return await effect().then(resolve, reject);
          case "crash before":
            return actor.crash();
          case "crash after":
            await effect().catch(() => {});
            return actor.crash();
          case "hang": {
            const { error, timeoutMs, commitMs, isDeadly } = fault;
            const over = isDeadly ? () => actor.crash() : () => reject(error);
            park({ label: `${label} times out`, actor, dueAt: now + timeoutMs, fire: over });
            const happen = () => effect().then(ignore, ignore);
            if (commitMs !== undefined) after(commitMs, `${label} happens late`, happen);
            return;
          }
        }
      };
      park({ label, actor, dueAt: now + plan.latencyMs(), fire: begin });
    });

  const sleep = (actor: Actor, label: string, ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const entry = park({
        label: `${actor.name}: ${label}`,
        actor,
        dueAt: now + (signal?.aborted ? 0 : ms),
        fire: resolve,
      });
      signal?.addEventListener("abort", () => {
        entry.dueAt = Math.min(entry.dueAt, now);
      });
    });

  const waiting = async (): Promise<readonly Entry[]> => {
    // All that the last step set free runs in microtasks, and a macrotask comes after the last of them.
    await new Promise((resolve) => setImmediate(resolve));
    entries = entries.filter(({ actor }) => actor?.isAlive() ?? true);
    return entries;
  };

  const fire = async (entry: Entry): Promise<void> => {
    entries.splice(entries.indexOf(entry), 1);
    steps += 1;
    trace(entry.label);
    await entry.fire();
  };

  return {
    now: () => now,
    call,
    sleep,
    after,
    fire,
    waiting: () => entries,
    pass(ms) {
      now += ms;
    },
    async runnable() {
      return (await waiting()).filter(({ dueAt }) => dueAt <= now);
    },
    async run(until) {
      for (;;) {
        const left = await waiting();
        const next = left.reduce((least, { dueAt }) => Math.min(least, dueAt), Number.POSITIVE_INFINITY);
        if (next > until) {
          now = Math.max(now, until);
          return;
        }
        now = Math.max(now, next);
        // An invocation may have died of its time limit by then.
        const runnable = left.filter(({ dueAt, actor }) => dueAt <= now && (actor?.isAlive() ?? true));
        if (runnable.length === 0) continue;
        await fire(plan.pick(runnable));
        if (onStep()) return;
      }
    },
    use(other) {
      plan = other;
    },
    steps: () => steps,
    hash: () => digest.copy().digest("hex").slice(0, 16),
  };
}

export function createActor(name: string, isAliveToo: () => boolean = () => true): Actor {
  let crashed = false;
  return {
    name,
    isAlive: () => !crashed && isAliveToo(),
    crash() {
      crashed = true;
    },
  };
}

function ignore(): void {}
