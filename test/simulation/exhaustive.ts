import { createHash } from "node:crypto";
import { open, type Scenario, type Stage, scenarios } from "./scenarios.ts";
import type { Entry } from "./scheduler.ts";
import type { Violation } from "./watch.ts";
import type { Mutant } from "./world.ts";

export interface ExhaustiveResult {
  scenario: string;
  /** Distinct states of the table, the sandboxes and everything each actor knows. */
  states: number;
  /** Orders of the steps, each of which leads through those states. */
  interleavings: bigint;
  violation: (Violation & { path: readonly string[] }) | undefined;
}

/** More than this and the scenario is too large to be exhausted in a minute: better to be told. */
const statesMax = 60_000;

/**
 * Every order of every step that another actor could notice. A state that was reached before is not gone on from
 * again: what follows depends on nothing but the state, which is the table, the sandboxes, the remote, and what each
 * actor was answered so far.
 */
export async function exhaust(scenario: Scenario, mutant?: () => Mutant): Promise<ExhaustiveResult> {
  const known = new Map<string, bigint>();
  let violation: ExhaustiveResult["violation"];

  /** Comes with the stage that its parent has just brought there; all further children begin anew. */
  const visit = async (path: readonly number[], { stage, labels }: Run): Promise<bigint> => {
    const next = await choices(stage, labels);
    const [broken] = stage.watch.violations;
    if (broken) {
      violation ??= { ...broken, path: [...labels] };
      return 1n;
    }
    const key = keyOf(stage);
    const before = known.get(key);
    if (before !== undefined) return before;
    if (known.size >= statesMax) throw new Error(`${scenario.name} has more than ${statesMax} states`);

    let orders = next.length === 0 ? 1n : 0n;
    for (let choice = 0; choice < next.length && !violation; choice++) {
      const run = choice === 0 ? { stage, labels } : await replay(path);
      await take(run.stage, run.labels, (await choices(run.stage, run.labels))[choice]);
      orders += await visit([...path, choice], run);
    }
    known.set(key, orders);
    return orders;
  };

  const replay = async (path: readonly number[]): Promise<Run> => {
    const run = { stage: await open(scenario, mutant?.()), labels: [] };
    for (const choice of path)
      await take(run.stage, run.labels, (await choices(run.stage, run.labels))[choice]);
    return run;
  };

  const interleavings = await visit([], await replay([]));
  return { scenario: scenario.name, states: known.size, interleavings, violation };
}

export async function exhaustAll(mutant?: () => Mutant): Promise<ExhaustiveResult[]> {
  const results: ExhaustiveResult[] = [];
  for (const scenario of scenarios) results.push(await exhaust(scenario, mutant));
  return results;
}

interface Run {
  stage: Stage;
  labels: string[];
}

/** What can be done next, once everything that nobody could notice is done. */
async function choices(stage: Stage, labels: string[]): Promise<readonly Entry[]> {
  for (;;) {
    const runnable = await stage.scheduler.runnable();
    const unnoticed = runnable.find(({ label }) => unnoticeable.test(label));
    if (!unnoticed) return runnable;
    await take(stage, labels, unnoticed);
  }
}

/** Steps that commute with all others: they add to what nobody reads here, read what nobody writes, or only wait. */
const unnoticeable =
  /: (?:timers\.arm|store\.(?:getFlags|putRecord|putPrompt|listSlots|takeSlot|freeSlot|listWarm|getBase|addUsage)|provider\.(?:guardNetwork|exec)|work\.send|sleeps|waits|sends|asks for|hears of)/;

async function take({ scheduler, watch }: Stage, labels: string[], entry: Entry | undefined): Promise<void> {
  if (!entry) throw new Error("the same steps led elsewhere");
  labels.push(entry.label);
  await scheduler.fire(entry);
  watch.look();
}

function keyOf({ scheduler, watch, world, knowledge }: Stage): string {
  const state = {
    tasks: [...watch.tasks],
    sessions: [...watch.sessions],
    sandboxes: world.sandboxes.sandboxes().map(({ name }) => name),
    agents: watch.agents.map(({ process, ended }) => [process.sandbox, process.runDir, process.alive, ended]),
    refs: [...world.remote.refs()],
    knowledge: [...knowledge].sort(([a], [b]) => (a < b ? -1 : 1)),
    waiting: scheduler
      .waiting()
      .map(({ label, dueAt }) => `${label} ${dueAt}`)
      .sort(),
  };
  // Sealed with a nonce of its own in every run, and opened to the same.
  const text = JSON.stringify(state).replaceAll(/sealed\\*":\\*"[^"\\]*/g, "sealed");
  return createHash("sha256").update(text).digest("base64");
}
