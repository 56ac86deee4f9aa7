import { type AllFlags, limits } from "@concierge/core";
import { calm, drawWeather, randomPlan } from "./faults.ts";
import { goAbout, liveThrough } from "./history.ts";
import { createRandom, type Random } from "./random.ts";
import { drawScript } from "./runner.ts";
import { createScheduler } from "./scheduler.ts";
import { configOf } from "./settings.ts";
import { boundMs, checkSettled } from "./settle.ts";
import { createWatch, type Violation } from "./watch.ts";
import { createWorld, type Mutant } from "./world.ts";

export interface RunOptions {
  seed: number;
  /** How many requests each user makes. */
  requests?: number;
  mutant?: Mutant | undefined;
  /** Forces long turns. */
  isLong?: true | undefined;
  onTrace?: ((line: string) => void) | undefined;
}

export interface RunResult {
  seed: number;
  steps: number;
  tasks: number;
  turns: number;
  sandboxes: number;
  pushes: number;
  /** Hash of every step and its time: two runs of a seed have the same. */
  hash: string;
  violations: Violation[];
}

export const defaultRequests = 8;

/** After the faults there is still something to go wrong: what they left behind. */
const requestsInCalm = 2;
const startAt = 1_800_000_000_000;
const stormMs = 8 * 60_000;
const longestTurnMs = 150_000;
/** A turn with a distant deadline ends by this after the last fault: a last output, then silence up to the cap. */
const longestSilenceMs = 120_000 + limits.activityCapMs;
/** A run with more steps than this is in a loop. */
const stepsMax = 60_000;

/** One history: faults, then calm, then the final checks. */
export async function simulate({
  seed,
  requests = defaultRequests,
  mutant,
  onTrace,
  ...options
}: RunOptions): Promise<RunResult> {
  const random = createRandom(seed);
  const isLong = random.chance(0.15) || options.isLong === true;
  let weather = drawWeather(random, { isLong });
  const flags = drawFlags(random, isLong);
  const config = configOf({
    // Long turns need capacity for all, so that nobody waits for another's end.
    max: isLong ? 100 : random.pick([3, 100]),
    perUser: random.chance(0.3) && !isLong ? 1 : undefined,
    warm: random.pick([0, 0, 2]),
    idleMs: random.pick([60_000, 240_000]),
    lifeMs: isLong ? 18_000_000 : random.pick([200_000, 18_000_000]),
    setup: random.chance(0.3),
  });
  const runnersDie = random.chance(0.5) ? 0 : random.next() * 0.4;
  const watch = createWatch({ cap: config.poolMax, now: () => scheduler.now() });
  const elapsedMs = () => scheduler.now() - startAt;
  const scheduler = createScheduler({
    startAt,
    plan: randomPlan(random, weather, elapsedMs),
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
    script: () => drawScript(random, { isLong, dies: runnersDie }),
  });

  const history = { scheduler, random, world, watch, weather: () => weather, isLong };
  liveThrough(history, requests);
  world.everyMinute();
  await scheduler.run(startAt + stormMs);

  if (watch.violations.length === 0) {
    const { trouble } = weather;
    // A remote that is gone stays gone.
    weather = { ...calm, trouble: trouble?.toMs === Number.POSITIVE_INFINITY ? trouble : undefined };
    scheduler.use(randomPlan(random, weather, elapsedMs));
    watch.evidence.calm();
    goAbout(history, requestsInCalm);
    const turnMs = isLong ? longestSilenceMs : longestTurnMs;
    await scheduler.run(startAt + stormMs + turnMs + boundMs + config.sessionIdleMs);
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

/**
 * Every flag except the deadline's may be off and the invariants still hold; without that one nothing bounds a turn.
 * Long turns are bounded by silence.
 */
function drawFlags(random: Random, isLong: boolean): AllFlags {
  const draw = (): string => (random.chance(0.85) ? "on" : "off");
  return {
    ENABLE_AUTHORITATIVE_TIMEOUT: "on",
    ENABLE_CANCELLATION_CHECKS: "on",
    ENABLE_DB_BACKED_STOP: draw(),
    ENABLE_HEALTH_PROBE: draw(),
    ENABLE_INACTIVITY_TIMEOUT: isLong ? "on" : draw(),
  };
}
