import { AsyncLocalStorage } from "node:async_hooks";
import {
  type AllFlags,
  type Config,
  createFlagReader,
  createSealer,
  type EndingDeps,
  type LaunchDeps,
  type Store,
  type Timer,
  type WebhookDeps,
  type WorkMessage,
} from "@concierge/core";
import { createMemoryProvider } from "@concierge/core/testing";
import { createMemoryStore } from "@concierge/store";
import { topology } from "../../infra/topology.ts";
import { noAgents } from "../testing/agents.ts";
import { type Classify, createEdge } from "./edge.ts";
import type { Weather } from "./faults.ts";
import { observeProvider, observeStore, overhearProvider, overhearReaper } from "./observe.ts";
import { stepped, withStaleIndex, withStops } from "./ports.ts";
import { createQueue } from "./queue.ts";
import type { Random } from "./random.ts";
import { createRemote } from "./remote.ts";
import { runAgent, type Script } from "./runner.ts";
import { type Actor, createActor, type Scheduler } from "./scheduler.ts";
import { apiCallsMs, functionMs, reserveMs } from "./settings.ts";
import { verbs as coreVerbs, type Verbs } from "./verbs.ts";
import { canary, type Watch } from "./watch.ts";

export type AllDeps = LaunchDeps & EndingDeps & WebhookDeps;
export type Ports = AllDeps;
export type Role = "api" | "worker" | "timer" | "reaper";

/** A deliberate bug between the core and its ports, or instead of a verb. */
export interface Mutant {
  /** A table that breaks its contract. */
  table?: (store: Store) => Store;
  ports?: (deps: Ports, role: Role) => Ports;
  verbs?: Partial<Verbs>;
  /** A runner that interprets responses differently. */
  classify?: Classify;
}

export interface WorldOptions {
  scheduler: Scheduler;
  random: Random;
  watch: Watch;
  weather: () => Weather;
  script: () => Script;
  config: Config;
  flags: AllFlags;
  mutant?: Mutant | undefined;
  /** An invocation has ended and only its response remains. */
  onEnd?: ((invocation: Actor, role: Role, answer: Answer<unknown>) => void) | undefined;
}

export type Answer<T> = { ok: true; value: T } | { ok: false; error: unknown };
export type World = ReturnType<typeof createWorld>;

const instances: Record<Role, number> = { api: 3, worker: 3, timer: 2, reaper: 2 };
const requestTimeoutMs = 15_000;

/** The deadline of the current part of the work. */
const partDeadlines = new AsyncLocalStorage<number>();

/** All of Concierge in one thread: the real verbs, with the scheduler in front of each port. */
export function createWorld(options: WorldOptions) {
  const { scheduler, random, watch, weather, config, mutant } = options;
  const verbs: Verbs = { ...coreVerbs, ...mutant?.verbs };
  const clock = { now: scheduler.now, sleep: async () => {} };
  const remote = createRemote(watch);
  const memory = createMemoryStore({ clock });
  const rawStore = mutant?.table?.(memory) ?? memory;
  const { provider: rawProvider, world: sandboxes } = createMemoryProvider({
    clock,
    onLaunch(process) {
      const agent = watch.launched(process);
      void runAgent(runnerWorld, agent, options.script());
    },
  });
  watch.lookAt(sandboxes);
  const store = observeStore(
    withStaleIndex(rawStore, random, () => weather().staleIndex),
    watch,
  );
  const provider = observeProvider(
    withStops(rawProvider, sandboxes, () => random.chance(weather().sandboxStops)),
    watch,
  );
  const sealer = createSealer(`${canary}sealing-key`);
  const skews = new Map<string, number>();
  let ids = 0;
  const nextId = (prefix: string) => `${prefix}_${String(++ids).padStart(26, "0")}`;

  const skewOf = (instance: string): number => {
    const known = skews.get(instance);
    if (known !== undefined) return known;
    const { skewMs } = weather();
    const skew = random.between(-skewMs, skewMs);
    skews.set(instance, skew);
    return skew;
  };

  const work = createQueue<WorkMessage>({
    name: "work",
    scheduler,
    random,
    visibilityMs: topology.queues.WorkQueue.visibilityTimeoutMs,
    maxReceives: topology.queues.WorkQueue.maxReceives,
    faults: weather,
    handle: (message) =>
      succeeds(
        invoke<unknown>("worker", nameOf(message), (deps) => {
          if (message.kind === "webhook") return verbs.deliverWebhook(deps, message);
          return message.kind === "release" ? verbs.release(deps, message) : verbs.handleWork(deps, message);
        }),
      ),
  });
  const timers = createQueue<Timer>({
    name: "timers",
    scheduler,
    random,
    visibilityMs: topology.queues.TimerQueue.visibilityTimeoutMs,
    maxReceives: topology.queues.TimerQueue.maxReceives,
    faults: weather,
    handle: (timer) => succeeds(invoke("timer", timer.kind, (deps) => verbs.fireTimer(deps, timer))),
  });

  /** What one invocation gets: each call is a step, by its own clock. */
  function depsFor(actor: Actor, role: Role, skewMs: number, callsUntil = Number.POSITIVE_INFINITY): AllDeps {
    const timeLeftMs = () => {
      const until = Math.min(callsUntil, partDeadlines.getStore() ?? Number.POSITIVE_INFINITY);
      return Math.max(until - scheduler.now(), 0);
    };
    const actorClock = {
      now: () => scheduler.now() + skewMs,
      sleep: (ms: number, signal?: AbortSignal) => scheduler.sleep(actor, "sleeps", ms, signal),
    };
    const ownStore = stepped(scheduler, actor, "store", store);
    const steppedStore = role === "reaper" ? overhearReaper(ownStore, watch) : ownStore;
    const deps = {
      config,
      clock: actorClock,
      ids: {
        task: () => nextId("task"),
        key: () => nextId("key"),
        claim: () => nextId("claim"),
        warm: () => nextId("w"),
      },
      store: steppedStore,
      provider: overhearProvider(stepped(scheduler, actor, "provider", provider, timeLeftMs), watch),
      git: stepped(scheduler, actor, "git", remote.git, timeLeftMs),
      work: stepped(scheduler, actor, "work", {
        async send(message: WorkMessage, delayMs = 0) {
          watch.keepsSecrets("a work message", message);
          if (message.kind === "webhook") watch.evidence.announced(message.taskId, message.turn);
          work.send(message, delayMs);
        },
      }),
      timers: stepped(scheduler, actor, "timers", {
        async arm(timer: Timer, delayMs: number) {
          watch.keepsSecrets("a timer", timer);
          watch.armed(timer);
          watch.evidence.armed(role, timer);
          timers.send(timer, delayMs);
        },
      }),
      flags: createFlagReader({ store: steppedStore, clock: actorClock }, options.flags),
      metrics: { count: (name: string) => watch.keepsSecrets("a metric", name) },
      timeLeftMs,
      sealer,
      runner: "the runner",
      callbackUrl: "http://concierge",
      agents: noAgents,
      webhooks: { send: async () => ({ kind: "delivered" }) as const },
      limitTime: <T>(ms: number, work: () => Promise<T>) =>
        partDeadlines.run(scheduler.now() + Math.min(ms, timeLeftMs()), work),
    };
    return mutant?.ports?.(deps, role) ?? deps;
  }

  const invocations = new Map<string, number>();
  /** Numbered by role and kind, so that the start order does not affect names. */
  const nextName = (role: Role, what: string, instance: string): string => {
    const number = (invocations.get(`${role} ${what}`) ?? 0) + 1;
    invocations.set(`${role} ${what}`, number);
    return `${instance}#${number} ${what}`;
  };

  /** One invocation of a function. Never resolves if it crashed. */
  async function invoke<T>(
    role: Role,
    what: string,
    verb: (deps: AllDeps) => Promise<T>,
  ): Promise<Answer<T>> {
    const instance = `${role}-${random.between(1, instances[role])}`;
    const dueBy = scheduler.now() + functionMs[role];
    const actor = createActor(nextName(role, what, instance), () => scheduler.now() < dueBy);
    const callsUntil = role === "api" ? scheduler.now() + apiCallsMs : dueBy - reserveMs;
    const deps = depsFor(actor, role, skewOf(instance), callsUntil);
    // It has its own limits, not those of the work that requested it.
    const answer = await answerOf(partDeadlines.exit(() => verb(deps)));
    options.onEnd?.(actor, role, answer);
    return answer;
  }

  async function answerOf<T>(answer: Promise<T>): Promise<Answer<T>> {
    try {
      return { ok: true, value: await answer };
    } catch (error) {
      watch.keepsSecrets("an error", error instanceof Error ? error.message : String(error));
      return { ok: false, error };
    }
  }

  /** A request to the api from outside. No response if it was lost on the way there or back. */
  async function call<T>(
    actor: Actor,
    what: string,
    verb: (deps: AllDeps) => Promise<T>,
  ): Promise<Answer<T> | undefined> {
    const lost = () => random.chance(weather().networkFails);
    await scheduler.sleep(actor, `asks for ${what}`, random.between(1, 30));
    const arrives = !lost();
    const answers = !lost();
    return await new Promise((resolve) => {
      const giveUp = () => resolve(undefined);
      const stopWaiting = scheduler.after(
        requestTimeoutMs,
        `${actor.name}: waits no longer for ${what}`,
        giveUp,
      );
      if (!arrives) return;
      void invoke("api", what, verb).then((answer) => {
        if (!answers) return;
        scheduler.after(random.between(1, 30), `${actor.name}: hears of ${what}`, () => {
          stopWaiting();
          resolve(answer);
        });
      });
    });
  }

  const runnerWorld = {
    scheduler,
    remote,
    verbs: {
      ...verbs,
      async grantPush(...given: Parameters<Verbs["grantPush"]>) {
        const grant = await verbs.grantPush(...given);
        if (grant.action === "go") watch.granted(given[1].taskId, given[1].turn);
        return grant;
      },
    },
    request: createEdge(
      { random, call, isHostile: () => random.chance(weather().hostileEdge) },
      mutant?.classify,
    ),
    evidence: watch.evidence,
    remoteMs: () => random.between(1, 5_000),
    onAcknowledged: (taskId: string, turn: number, texts: readonly string[]) =>
      acknowledged.push(...texts.map((text) => ({ taskId, turn, text }))),
  };
  const acknowledged: { taskId: string; turn: number; text: string }[] = [];

  /** The schedule: every minute. */
  function everyMinute(): void {
    scheduler.after(60_000, "the schedule", () => {
      everyMinute();
      if (random.chance(weather().drop)) return;
      void invoke("reaper", "reap", (deps) => verbs.reap(deps, { dryRun: false, maxMs: 50_000 })).then(
        (answer) => {
          if (answer.ok) watch.keepsSecrets("a report", answer.value);
        },
      );
    });
  }

  return {
    verbs,
    invoke,
    call,
    everyMinute,
    sandboxes,
    rawStore,
    remote,
    acknowledged,
    depsFor,
    /** An expired sandbox stops when its time is over, not when someone next asks for it. */
    expire: () => void rawProvider.list({ stage: config.stage }),
  };
}

function nameOf(message: WorkMessage): string {
  return message.kind === "release" ? `release ${message.epoch}` : message.kind;
}

async function succeeds(answer: Promise<Answer<unknown>>): Promise<boolean> {
  return (await answer).ok;
}
