import type { AllFlags } from "@concierge/core";
import { calm, drawWeather, randomPlan } from "./faults.ts";
import { liveThrough } from "./history.ts";
import { createRandom, type Random } from "./random.ts";
import { drawScript } from "./runner.ts";
import { createScheduler } from "./scheduler.ts";
import { boundMs, checkSettled } from "./settle.ts";
import { createWatch, type Violation } from "./watch.ts";
import { configOf, createWorld, type Mutant } from "./world.ts";

export interface RunOptions {
  seed: number;
  /** How many requests each user makes. */
  requests?: number;
  mutant?: Mutant | undefined;
  onTrace?: ((line: string) => void) | undefined;
}

export interface RunResult {
  seed: number;
  steps: number;
  tasks: number;
  turns: number;
  sandboxes: number;
  pushes: number;
  /** Of every step and its time: two runs of a seed have the same. */
  hash: string;
  violations: Violation[];
}

export const defaultRequests = 8;

const startAt = 1_800_000_000_000;
const stormMs = 8 * 60_000;
const longestTurnMs = 150_000;
/** A run that takes more steps than this goes round in circles. */
const stepsMax = 60_000;

/** One history: a storm of chance, then calm, then the reckoning. */
export async function simulate({
  seed,
  requests = defaultRequests,
  mutant,
  onTrace,
}: RunOptions): Promise<RunResult> {
  const random = createRandom(seed);
  let weather = drawWeather(random);
  const flags = drawFlags(random);
  const config = configOf({
    max: random.pick([3, 100]),
    perUser: random.chance(0.3) ? 1 : undefined,
    warm: random.pick([0, 0, 2]),
    idleMs: random.pick([60_000, 240_000]),
    lifeMs: random.pick([200_000, 18_000_000]),
    setup: random.chance(0.3),
  });
  const watch = createWatch(config.poolMax);
  const scheduler = createScheduler({
    startAt,
    plan: randomPlan(random, weather),
    onTrace,
    onStep() {
      world.expire();
      watch.look();
      if (scheduler.steps() > stepsMax) watch.report(4, `it goes on after ${stepsMax} steps`);
      return watch.violations.length > 0;
    },
  });
  const world = createWorld({
    scheduler,
    random,
    watch,
    config,
    flags,
    mutant,
    weather: () => weather,
    script: () => drawScript(random),
  });

  liveThrough({ scheduler, random, world, watch, weather: () => weather }, requests);
  world.everyMinute();
  await scheduler.run(startAt + stormMs);

  if (watch.violations.length === 0) {
    weather = calm;
    scheduler.use(randomPlan(random, calm));
    await scheduler.run(startAt + stormMs + longestTurnMs + boundMs + config.sessionIdleMs);
  }
  if (watch.violations.length === 0) await checkSettled(scheduler, world, watch);

  const tasks = [...watch.tasks.values()];
  return {
    seed,
    steps: scheduler.steps(),
    tasks: tasks.length,
    turns: tasks.reduce((sum, { turn }) => sum + turn, 0),
    sandboxes: world.sandboxes.created.length,
    pushes: world.remote.refs().size,
    hash: scheduler.hash(),
    violations: watch.violations,
  };
}

/** All but the deadline's can be off and the invariants still hold; without that one nothing bounds a turn. */
function drawFlags(random: Random): AllFlags {
  const draw = (): string => (random.chance(0.85) ? "on" : "off");
  return {
    ENABLE_AUTHORITATIVE_TIMEOUT: "on",
    ENABLE_CANCELLATION_CHECKS: "on",
    ENABLE_DB_BACKED_STOP: draw(),
    ENABLE_HEALTH_PROBE: draw(),
    ENABLE_INACTIVITY_TIMEOUT: draw(),
  };
}
