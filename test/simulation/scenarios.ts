import { allFlags, limits, ProviderError, type StartRequest, type Store } from "@concierge/core";
import { calm } from "./faults.ts";
import {
  claimOf,
  createFootprints,
  type Footprints,
  isOfSlots,
  isUnnoticeable,
  knowerOf,
} from "./footprint.ts";
import { withProvider } from "./mutate.ts";
import type { Random } from "./random.ts";
import { type Actor, createActor, createScheduler, type Entry, type Scheduler } from "./scheduler.ts";
import { configOf } from "./settings.ts";
import { createWatch, type Watch } from "./watch.ts";
import { type AllDeps, createWorld, type Mutant, type Ports, type Role, type World } from "./world.ts";

/** One task at the moment from which every order is tried. */
export interface Stage {
  scheduler: Scheduler;
  world: World;
  watch: Watch;
  /** Every response each actor got so far. */
  knowledge: ReadonlyMap<string, string>;
  footprints: Footprints;
  /** Whether nobody could tell when this step is taken. */
  isUnnoticeable(entry: Entry): boolean;
  /** Starts an invocation; its first call waits to be picked. */
  begin(role: Role, what: string, skewMs: number, verb: (deps: AllDeps) => Promise<unknown>): void;
  /** Takes all steps except those that are held back. */
  settle(held?: (entry: Entry) => boolean): Promise<void>;
}

export interface Scenario {
  name: string;
  /** What its agent does: ends with something to push, or works on in silence. */
  agent: "pushes" | "works";
  /** Too large for test runs; only the command line tries it. */
  large?: true;
  /** Takes a minute or more; only the long run tries it. */
  slow?: true;
  /** Steps on slots are taken together with the step before: another scenario tries how they race. */
  slotsAtOnce?: true;
  /** The follow-up of a turn is part of the race: its sandbox is released. */
  followsUp?: true;
  /** Brings the task to the start of the race, and starts it. */
  set(stage: Stage): Promise<void>;
}

const config = configOf({
  max: 100,
  perUser: undefined,
  warm: 0,
  idleMs: 240_000,
  lifeMs: 18_000_000,
  setup: false,
});
const startAt = 1_800_000_000_000;
/** The deadline's process is a minute ahead: for it the deadline has passed, for the others it has not. */
const aheadMs = 60_000;
const taskId = `task_${"1".padStart(26, "0")}`;
const which = { taskId, turn: 1 };
/** The worker whose turn is taken over: until the race it does nothing and does not renew its claim. */
const late = "worker-0#1 provision";
const pushing: StartRequest = {
  prompt: "work",
  limits: { maxDurationMs: 50_000, inactivityMs: 45_000 },
  repo: { url: "https://git.example/repo.git", token: "canary-token" },
};

const quiet: StartRequest = { prompt: "work", limits: pushing.limits };

export const theRace: Scenario = {
  name: "stop, deadline, finalize and a late worker",
  agent: "pushes",
  set: (stage) => raceTheEnd(stage, pushing),
};

export const creation: Scenario = {
  name: "stop and deadline against a worker that creates",
  agent: "works",
  slow: true,
  slotsAtOnce: true,
  async set(stage) {
    await start(stage, quiet);
    await hold(stage, "provision: provider.create");
    await stop(stage);
    await deadline(stage);
  },
};

export const scenarios: readonly Scenario[] = [
  theRace,
  {
    name: "stop, deadline, finalize and a late worker, without keepAlive",
    agent: "pushes",
    large: true,
    slotsAtOnce: true,
    followsUp: true,
    set: (stage) => raceTheEnd(stage, { ...pushing, keepAlive: false }),
  },
  creation,
  {
    name: "stop against a worker from its claim on",
    agent: "works",
    async set(stage) {
      await start(stage, quiet);
      await hold(stage, "provision: timers.arm");
      await stop(stage);
    },
  },
  {
    name: "a worker against the one that takes over from it",
    agent: "works",
    slow: true,
    set: raceForTheRoom,
  },
  {
    name: "stop against a worker and the one that takes over from it",
    agent: "works",
    large: true,
    slotsAtOnce: true,
    async set(stage) {
      await raceForTheRoom(stage);
      await stop(stage);
    },
  },
  {
    name: "a late terminate, whose sweep failed, against continue and the next turn",
    agent: "works",
    async set(stage) {
      const { begin, world } = stage;
      await start(stage, quiet);
      await hold(stage);
      begin("api", "stops", 0, (deps) => world.verbs.stop(deps, "ada", taskId));
      await hold(stage, "provider.sweep");
      const timer = { kind: "terminate", ...which } as const;
      const terminate = (what: string) =>
        begin("timer", what, 0, (deps) => world.verbs.fireTimer(withoutSweep(deps), timer));
      terminate("gets no answer");
      await hold(stage, "provider.sweep");
      // The third unanswered attempt deletes the sandbox.
      terminate("terminates");
      await hold(stage, "provider.sweep", "terminates: store.getSession");
      await hold(stage, "terminates: store.getSession");
      begin("api", "continues", 0, (deps) =>
        world.verbs.continueTask(deps, "ada", taskId, { prompt: "go on" }),
      );
    },
  },
];

/** A worker is about to record which sandbox it creates, and the one that takes over is about to look. */
async function raceForTheRoom(stage: Stage): Promise<void> {
  await start(stage, quiet);
  await hold(stage, "provision: store.changeSession");
  await takeOver(stage, "takes over: store.getSession");
}

/** The turn runs, its runner is about to ask for the push, and the worker it was taken over from wakes up. */
async function raceTheEnd(stage: Stage, request: StartRequest): Promise<void> {
  await start(stage, request);
  await hold(stage, "provision: provider.launch");
  await takeOver(stage, "asks for clone");
  await hold(stage, late, "asks for finalize");
  await stop(stage);
  await deadline(stage);
}

export async function open(scenario: Scenario, mutant?: Mutant): Promise<Stage> {
  const watch = createWatch();
  const knowledge = new Map<string, string>();
  const footprints = createFootprints();
  /** What an ended actor knows cannot matter any more. */
  const forget = (name: string): void => {
    knowledge.delete(name);
    knowledge.delete(claimOf(name));
  };
  const scheduler = createScheduler({
    startAt,
    plan: { latencyMs: () => 0, pick: first, fault: () => ({ kind: "none" }) },
    onStep: () => {
      watch.look();
      return watch.violations.length > 0;
    },
    onAnswer: (actor: Actor, call, answer) => {
      const said = answer instanceof Error ? String(answer) : JSON.stringify(answer);
      const knower = knowerOf(actor, call);
      knowledge.set(knower, `${knowledge.get(knower) ?? ""}|${said}`);
      footprints.answered(actor, call, answer);
    },
  });
  const world = createWorld({
    scheduler,
    watch,
    random: steady,
    weather: () => ({ ...calm, skewMs: 0 }),
    script: () => ({
      batches: 0,
      everyMs: 0,
      exitCode: 0,
      commits: true,
      afterwards: scenario.agent === "pushes" ? "end" : "silence",
      keepsDeadline: false,
      escapes: false,
    }),
    config,
    flags: allFlags("on"),
    onEnd({ name }, role, answer) {
      forget(name);
      // A runner still has to hear the response.
      if (role === "api") knowledge.set(name, JSON.stringify(answer));
    },
    mutant: {
      ...mutant,
      table: (store) => withoutNews(mutant?.table?.(store) ?? store),
      ports: (deps, role) => withoutAsides(mutant?.ports?.(deps, role) ?? deps, scenario),
    },
  });

  let begun = 0;
  const stage: Stage = {
    scheduler,
    world,
    watch,
    knowledge,
    footprints,
    isUnnoticeable: ({ label }) =>
      isUnnoticeable(label) || (scenario.slotsAtOnce === true && isOfSlots(label)),
    begin(role, what, skewMs, verb) {
      const actor = createActor(`${role} ${++begun} ${what}`);
      const end = () => forget(actor.name);
      void verb(world.depsFor(actor, role, skewMs)).then(end, end);
    },
    async settle(held = () => false) {
      for (;;) {
        const next = (await scheduler.runnable()).find((entry) => !held(entry));
        if (!next) return;
        await scheduler.fire(next);
        watch.look();
      }
    },
  };
  await scenario.set(stage);
  return stage;
}

/** Counting and inspecting afterwards touch neither turn nor sandbox: they would only multiply the orders. */
function withoutAsides(deps: Ports, { followsUp }: Scenario): Ports {
  const asides: readonly string[] = followsUp ? ["environment"] : ["environment", "ended"];
  const send: Ports["work"]["send"] = async (message, delayMs) => {
    if (!asides.includes(message.kind)) await deps.work.send(message, delayMs);
  };
  return { ...deps, work: { send } };
}

/**
 * A worker that lost its claim only needs to know that: anything else about the task would only multiply the states.
 */
function withoutNews(store: Store): Store {
  return {
    ...store,
    async changeTask(id, guard, change) {
      const outcome = await store.changeTask(id, guard, change);
      return outcome.won || guard.claimId === undefined ? outcome : { won: false, item: undefined };
    },
  };
}

async function start(stage: Stage, request: StartRequest): Promise<void> {
  stage.begin("api", "starts", 0, (deps) => stage.world.verbs.start(deps, "ada", request));
  await hold(stage, "work delivers");
}

/** Takes every step except those with such a label. */
async function hold({ settle }: Stage, ...parts: readonly string[]): Promise<void> {
  await settle(({ label }) => parts.some((part) => label.includes(part)));
}

/** The held worker's claim expires, and another takes the turn over, up to such a step. */
async function takeOver(stage: Stage, part: string): Promise<void> {
  const { scheduler, begin, world, watch } = stage;
  scheduler.pass(limits.claimMs + 1);
  begin("worker", "takes over", 0, (deps) => world.verbs.handleWork(deps, { kind: "provision", ...which }));
  await hold(stage, late, part);
  const claims = watch.tasks.get(taskId)?.phases.filter(({ status }) => status === "provisioning");
  // A race without one of its racers would keep every invariant too.
  if (claims?.length !== 2) throw new Error("the turn was not taken over");
}

function withoutSweep(deps: AllDeps): AllDeps {
  const sweep = async (): Promise<never> => {
    throw new ProviderError("transient", "The provider failed.");
  };
  return { ...deps, ...withProvider(deps, { sweep }) };
}

/** A user's stop that has read the task: from here its view only gets older. */
async function stop({ begin, world, settle }: Stage): Promise<void> {
  begin("api", "stops", 0, (deps) => world.verbs.stop(deps, "ada", taskId));
  await settle(({ label }) => !/stops: store\.get(Task|Flags)/.test(label));
}

async function deadline({ begin, world, settle }: Stage): Promise<void> {
  begin("timer", "deadline", aheadMs, (deps) => world.verbs.fireTimer(deps, { kind: "deadline", ...which }));
  await settle(({ label }) => !/deadline: store\.get(Task|Flags)/.test(label));
}

/** No randomness: the enumeration makes the choices. */
const steady: Random = {
  next: () => 0.5,
  chance: () => false,
  between: () => 0,
  pick: first,
};

function first<T>(items: readonly T[]): T {
  const [item] = items;
  if (item === undefined) throw new Error("there is nothing to pick from");
  return item;
}
