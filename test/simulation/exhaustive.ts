import { createHash } from "node:crypto";
import { type Footprint, haveConflict } from "./footprint.ts";
import { createRaces, type Races } from "./races.ts";
import { open, type Scenario, type Stage, scenarios } from "./scenarios.ts";
import type { Entry } from "./scheduler.ts";
import type { Violation } from "./watch.ts";
import type { Mutant } from "./world.ts";

export interface ExhaustiveResult {
  scenario: string;
  /** Distinct states of the table, the sandboxes and what each actor knows. */
  states: number;
  /** Steps taken from those states. */
  steps: number;
  /** What is left at the end, in each way the scenario can end. */
  ends: ReadonlySet<string>;
  /** The statuses among them. */
  outcomes: ReadonlySet<string>;
  violation: (Violation & { path: readonly string[] }) | undefined;
}

export interface ExhaustiveOptions {
  mutant?: (() => Mutant) | undefined;
  /** Also tries orders that are equivalent to another one: the slow way, to check the reduction. */
  everyOrder?: boolean;
}

/** Beyond this the scenario is too large to be exhausted in minutes: fail instead of running on. */
const statesMax = 200_000;

/** Steps that were already tried in an equivalent order, each with what it touched. */
type Asleep = ReadonlyMap<string, Footprint>;

/**
 * Tries every order of every step that another actor could notice, except that of equivalent orders (those that differ
 * only in the order of two independent steps) one is tried. In each state one step is tried, and every step that races
 * with it in anything that follows is tried first, too (races.ts). A step that was tried first is not tried again after
 * an independent step. A state that was reached before is not explored again: what follows depends only on the state,
 * which is the table, the sandboxes, the remote, and every response each actor got. No time passes, so what is not due
 * now never is.
 */
export async function exhaust(
  scenario: Scenario,
  { mutant, everyOrder = false }: ExhaustiveOptions = {},
): Promise<ExhaustiveResult> {
  const known = new Map<string, { asleep: Asleep; races: Races }>();
  const ends = new Set<string>();
  const outcomes = new Set<string>();
  let steps = 0;
  let violation: ExhaustiveResult["violation"];

  /** Comes with the stage that its parent has just reached; all further children start anew. */
  const visit = async (path: readonly string[], given: Asleep, { stage, labels }: Run): Promise<Races> => {
    const waiting = new Set((await choices(stage, labels)).map(({ label }) => label));
    const races = createRaces(waiting);
    const [broken] = stage.watch.violations;
    if (broken) {
      violation ??= { ...broken, path: [...labels] };
      return races;
    }
    const key = keyOf(stage);
    const before = known.get(key);
    if (before && [...before.asleep.keys()].every((label) => given.has(label))) return before.races;
    if (known.size >= statesMax) throw new Error(`${scenario.name} has more than ${statesMax} states`);
    if (waiting.size === 0) {
      ends.add(leftOf(stage));
      for (const { state } of stage.watch.tasks.values()) outcomes.add(state.status);
    }

    // Reached again with more to try than before: try all of that.
    const asleep = new Map([...given].filter(([label]) => before?.asleep.has(label) ?? true));
    const awake = [...waiting].filter((label) => !asleep.has(label)).sort(byPromise);
    const wanted = new Set(everyOrder ? awake : awake.slice(0, 1));
    const tried = new Map(asleep);
    for (const step of wanted) {
      if (violation) break;
      const run = tried.size === asleep.size ? { stage, labels } : await replay(path);
      const footprint = await take(run.stage, run.labels, step);
      steps += 1;
      const apart = [...tried].filter(([, other]) => !everyOrder && !haveConflict(footprint, other));
      const after = await visit([...path, step], new Map(apart), run);
      for (const other of races.add(step, footprint, after)) if (!asleep.has(other)) wanted.add(other);
      tried.set(step, footprint);
    }
    known.set(key, { asleep, races });
    return races;
  };

  const replay = async (path: readonly string[]): Promise<Run> => {
    const run = { stage: await open(scenario, mutant?.()), labels: [] };
    for (const step of path) {
      await choices(run.stage, run.labels);
      await take(run.stage, run.labels, step);
    }
    await choices(run.stage, run.labels);
    return run;
  };

  await visit([], new Map(), await replay([]));
  return { scenario: scenario.name, states: known.size, steps, ends, outcomes, violation };
}

export async function exhaustAll(): Promise<ExhaustiveResult[]> {
  const results: ExhaustiveResult[] = [];
  for (const scenario of scenarios) results.push(await exhaust(scenario));
  return results;
}

interface Run {
  stage: Stage;
  labels: string[];
}

/** The possible next steps, once every unnoticeable step is done. */
async function choices(
  { scheduler, watch, isUnnoticeable }: Stage,
  labels: string[],
): Promise<readonly Entry[]> {
  for (;;) {
    const runnable = await scheduler.runnable();
    const unnoticed = runnable.find(isUnnoticeable);
    if (!unnoticed) return runnable;
    labels.push(unnoticed.label);
    await scheduler.fire(unnoticed);
    watch.look();
  }
}

/** Of two entries with the same label, either will do. */
async function take(
  { scheduler, watch, footprints }: Stage,
  labels: string[],
  step: string,
): Promise<Footprint> {
  const entry = scheduler.waiting().find(({ label }) => label === step);
  if (!entry) throw new Error("the same steps led elsewhere");
  labels.push(step);
  footprints.begin();
  await scheduler.fire(entry);
  watch.look();
  return footprints.end(entry);
}

function keyOf(stage: Stage): string {
  const { scheduler, knowledge, footprints } = stage;
  const now = scheduler.now();
  const waiting = scheduler.waiting().filter(({ actor, dueAt }) => actor !== undefined || dueAt <= now);
  const state = [
    leftOf(stage),
    [...footprints.deeds].sort(byName),
    [...knowledge].sort(byName),
    waiting.map(({ label, dueAt }) => `${label} ${dueAt}`).sort(),
  ];
  return createHash("sha256").update(textOf(state)).digest("base64");
}

function leftOf({ watch, world }: Stage): string {
  return textOf({
    tasks: [...watch.tasks],
    sessions: [...watch.sessions],
    sandboxes: world.sandboxes.sandboxes().map(({ name }) => name),
    agents: watch.agents.map(({ process, ended }) => [process.sandbox, process.runDir, process.alive, ended]),
    refs: [...world.remote.refs()],
  });
}

/** Secrets are sealed with a new nonce in every run and open to the same text. */
function textOf(state: unknown): string {
  return JSON.stringify(state).replaceAll(/sealed\\*":\\*"[^"\\]*/g, "sealed");
}

/**
 * Any step can be tried first. If it races with none it is the only one to try, and these are the likeliest not to
 * race.
 */
function byPromise(a: string, b: string): number {
  const rank = (label: string) => (label.includes('"claimId"') ? 0 : label.includes(": store.get") ? 2 : 1);
  return rank(a) - rank(b);
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}
