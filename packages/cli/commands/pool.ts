import { Option } from "@commander-js/extra-typings";
import { ConciergeError, type Metrics } from "@concierge/client";
import { connect } from "../connection/connect.ts";
import { CommandError, exitCodes } from "../errors.ts";
import type { Program } from "../program.ts";
import { formatAge, formatUsd } from "../view/format.ts";
import { printFields, printJson, printNote, printTable } from "../view/table.ts";

export function registerPool(program: Program): void {
  program
    .command("pool")
    .description("show the sandbox pool")
    .action(async (_, command) => {
      const options = command.optsWithGlobals();
      const pool = await (await connect(options)).pool();
      if (options.json) return printJson(pool);
      printFields({
        sandboxes: `${pool.total} of ${pool.max}`,
        ready: String(pool.ready),
        "in use": String(pool.leased),
        idle: String(pool.idle),
        warm: String(pool.warm),
        creating: String(pool.creating),
        "oldest idle": pool.oldestIdleMs === null ? undefined : formatAge(pool.oldestIdleMs),
        "reuse rate": pool.reuseRate === null ? undefined : `${(pool.reuseRate * 100).toFixed(0)} %`,
      });
    });

  program
    .command("costs")
    .description("show usage and cost by day, next to the cost of a sandbox per message")
    .option("--from <day>", "the first day, for example 2026-11-01")
    .option("--to <day>", "the last day")
    .option("--user <id>", "one user (admins)")
    .action(async ({ from, to, user }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const costs = await client.costs({
        ...(from && { from }),
        ...(to && { to }),
        ...(user && { userId: user }),
      });
      if (options.json) return printJson(costs);
      printTable(
        ["DAY", "USER", "TURNS", "VCPU SECONDS", "COST", "PER MESSAGE"],
        costs.items.map(({ day, userId, turns, used, perMessage }) => [
          day,
          userId,
          String(turns),
          used.vcpuSeconds.toFixed(1),
          formatUsd(used.usd),
          formatUsd(perMessage.usd),
        ]),
      );
      const { used, perMessage } = costs.total;
      printNote(`Total ${formatUsd(used.usd)}; with a sandbox per message ${formatUsd(perMessage.usd)}.`);
    });

  program
    .command("metrics")
    .description("show the success metrics of this installation")
    .addOption(new Option("--window <window>", "over this time").choices(["1h", "24h", "7d"]).default("24h"))
    .action(async ({ window }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const metrics = await client.metrics({ window }).catch((error: unknown) => {
        throw error instanceof ConciergeError && error.status === 404 ? noMetrics() : error;
      });
      if (options.json) return printJson(metrics);
      printTable(["METRIC", "VALUE", "UNIT", "TARGET", "MET", "SAMPLES"], rowsOf(metrics));
    });
}

function noMetrics(): CommandError {
  const next = "Update the server, or read its metrics in CloudWatch (docs/operations.md).";
  return new CommandError(
    "This server has no metrics route (GET /v1/metrics answers 404).",
    exitCodes.notFound,
    next,
  );
}

function rowsOf({ items }: Metrics): string[][] {
  return items.map(({ name, value, unit, target, met, samples }) => [
    name,
    value === null ? "-" : String(Math.round(value * 1000) / 1000),
    unit,
    target ? `${target.op} ${target.value}` : "-",
    met === null ? "-" : String(met),
    String(samples),
  ]);
}
