import { createHash } from "node:crypto";

/** An actor takes steps: one invocation of a function, a runner, a user. A dead actor takes none. */
export interface Actor {
  readonly name: string;
  isAlive(): boolean;
  crash(): void;
}

/** What happens to a call when it is made. */
export type Fault =
  | { kind: "none" }
  | { kind: "delay"; ms: number }
  | { kind: "answer late"; ms: number }
  | { kind: "fail before"; error: Error }
  | { kind: "fail after"; error: Error }
  | { kind: "crash before" }
  | { kind: "crash after" }
  /** The response is lost and the SDK repeats the request: the caller gets the second response. */
  | { kind: "repeat" }
  /**
   * No response until the caller's own timeout; the effect happens later, or never. The function may die there
   * (`isDeadly`), without running its catch blocks.
   */
  | { kind: "hang"; error: Error; timeoutMs: number; commitMs: number | undefined; isDeadly: boolean };

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

/** All choices: made by chance, or by an enumeration. */
export interface Plan {
  latencyMs(): number;
  pick(runnable: readonly Entry[]): Entry;
  fault(call: Call): Fault;
}

export interface Scheduler {
  now(): number;
  /** An actor's call: it happens when the scheduler picks it, with the fault the plan chooses. */
  call<T>(actor: Actor, call: Call, effect: () => Promise<T>): Promise<T>;
  sleep(actor: Actor, label: string, ms: number, signal?: AbortSignal): Promise<void>;
  /** An event of the world that no crash prevents. Returns a function that cancels it. */
  after(ms: number, label: string, fire: () => Promise<void> | void): () => void;
  /** Takes steps until nothing is left to do before `until`. */
  run(until: number): Promise<void>;
  /** What could be picked now, for an enumeration. */
  runnable(): Promise<readonly Entry[]>;
  /** Everything that waits, with its time. */
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
  /** Called after each step; true ends the run. */
  onStep: () => boolean;
  onTrace?: ((line: string) => void) | undefined;
  /** The response of an undisturbed call, errors included. Together with its own steps this is all an actor knows. */
  onAnswer?: ((actor: Actor, call: Call, answer: unknown) => void) | undefined;
}

/**
 * One thing at a time. Every await in the core ends in a port, and every port call is parked here. Between two picks
 * only promises are resolved: no time passes and the machine decides nothing.
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
    // Everything the last step released runs in microtasks; a macrotask comes after the last of them.
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
        // An invocation may have hit its time limit by then.
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
