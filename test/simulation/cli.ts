import { type Arguments, help, parseArguments, UsageError } from "./args.ts";
import { exhaustAll } from "./exhaustive.ts";
import { defaultRequests, type RunResult, simulate } from "./simulate.ts";

/** The command that replays exactly this seed. */
function replayOf({ seed }: RunResult, { requests }: Arguments): string {
  const more = requests === defaultRequests ? "" : ` --requests ${requests}`;
  return `npm run simulate -- --seed ${seed}${more}`;
}

async function runSeeds(given: Arguments): Promise<boolean> {
  const startedAt = performance.now();
  const sum = { seeds: 0, steps: 0, tasks: 0, turns: 0, sandboxes: 0, pushes: 0 };
  for (let seed = given.from; seed <= given.to; seed++) {
    const onTrace = given.trace ? (line: string) => console.error(line) : undefined;
    const result = await simulate({ seed, requests: given.requests, onTrace });
    sum.seeds += 1;
    for (const key of ["steps", "tasks", "turns", "sandboxes", "pushes"] as const) sum[key] += result[key];
    const [violation] = result.violations;
    if (!violation) continue;

    const replay = replayOf(result, given);
    if (given.json) console.log(JSON.stringify({ ok: false, seed, violation, replay, hash: result.hash }));
    else {
      console.error(`seed ${seed} broke invariant ${violation.invariant}: ${violation.what}`);
      console.log(replay);
    }
    return false;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  if (given.json) console.log(JSON.stringify({ ok: true, ...sum, seconds }));
  else {
    console.log(
      `${sum.seeds} seeds, ${sum.steps} steps, ${sum.tasks} tasks, ${sum.turns} turns, ${sum.sandboxes} sandboxes, ` +
        `${sum.pushes} pushes: every invariant held (${seconds.toFixed(1)} s)`,
    );
  }
  return true;
}

async function runExhaustive({ json }: Arguments): Promise<boolean> {
  const results = await exhaustAll();
  const broken = results.find(({ violation }) => violation !== undefined);
  if (json) {
    const scenarios = results.map(({ ends, outcomes, ...result }) => ({
      ...result,
      ends: ends.size,
      outcomes: [...outcomes],
    }));
    console.log(JSON.stringify({ ok: !broken, scenarios }));
    return !broken;
  }
  for (const { scenario, states, steps, ends, outcomes, violation } of results) {
    const last = `${ends.size} ends (${[...outcomes].sort().join(", ")})`;
    console.log(`${scenario}: every order, by ${steps} steps through ${states} states to ${last}`);
    if (!violation) continue;
    console.error(`invariant ${violation.invariant} is broken: ${violation.what}, by these steps:`);
    for (const step of violation.path) console.error(`  ${step}`);
  }
  if (broken) console.log("npm run simulate -- --exhaustive");
  return !broken;
}

async function main(argv: readonly string[]): Promise<number> {
  const given = parseArguments(argv);
  switch (given.mode) {
    case "help":
      console.log(help);
      return 0;
    case "seeds":
      return (await runSeeds(given)) ? 0 : 1;
    case "exhaustive":
      return (await runExhaustive(given)) ? 0 : 1;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${help}`);
  process.exitCode = 2;
}
