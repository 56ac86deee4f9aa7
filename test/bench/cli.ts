/** `npm run bench`: figures as ratios to a baseline in the same run. Only counts can fail it, times never do. */
import { availableParallelism, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { cold } from "./cold.ts";
import { costs } from "./costs.ts";
import { dashboard } from "./dashboard.ts";
import { type Benchmark, formatTable, judge, type Result } from "./harness.ts";
import { isolation } from "./isolation.ts";
import { latency } from "./latency.ts";
import { ready } from "./ready.ts";
import { sandboxes } from "./sandboxes.ts";
import { stop } from "./stop.ts";
import { throughput } from "./throughput.ts";
import { timersBenchmark } from "./timers.ts";
import { units } from "./units.ts";
import { walls } from "./walls.ts";
import { writes } from "./writes.ts";

const benchmarks: readonly Benchmark[] = [
  writes,
  units,
  walls,
  stop,
  timersBenchmark,
  sandboxes,
  isolation,
  latency,
  costs,
  cold,
  throughput,
  ready,
  dashboard,
];
const names = benchmarks.map(({ name }) => name).join(", ");

const help = `Runs the benchmarks: npm run bench -- [options]

  --only NAME   this one alone, may be given again: ${names}
  --json        the figures as JSON on stdout
  --help        this text

${benchmarks.map(({ name, about }) => `  ${name.padEnd(12)}${about}`).join("\n")}

Exits with 1 where a count is over its bound, or a benchmark could not run. A time is met or missed, and fails
nothing: it says more on a machine that has nothing else to do.
`;

const options = {
  only: { type: "string", multiple: true },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const values = readArguments(args);
  if (!values) return 2;
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const unknown = values.only?.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
  if (unknown !== undefined) {
    console.error(`--only takes one of ${names}, not ${unknown}`);
    return 2;
  }

  const wanted = benchmarks.filter(({ name }) => values.only?.includes(name) ?? true);
  const loadBefore = load();
  const results: Result[] = [];
  const failed: string[] = [];
  for (const { name, run } of wanted) {
    console.error(`${name} … (load ${load()})`);
    try {
      results.push(...(await run()).map((figure) => judge(name, figure)));
    } catch (error) {
      console.error(`${name} could not be measured:`, error);
      failed.push(name);
    }
  }

  const machine = { node: process.version, cores: availableParallelism(), loadBefore, loadAfter: load() };
  if (values.json) console.log(JSON.stringify({ machine, figures: results, failed }, null, 2));
  else console.log(`\n${formatTable(results)}\n\n${describe(machine)}`);
  const isBroken = results.some(({ met, target }) => met === false && target?.firm);
  return isBroken || failed.length > 0 ? 1 : 0;
}

function readArguments(args: string[]) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function load(): string {
  return loadavg()
    .map((value) => value.toFixed(2))
    .join(" ");
}

function describe({ node, cores, loadBefore, loadAfter }: Record<string, string | number>): string {
  return `Ratios are Concierge to baseline: less is better, but of MB/s.
Node ${node}, ${cores} cores; load average ${loadBefore} before, ${loadAfter} after.`;
}
