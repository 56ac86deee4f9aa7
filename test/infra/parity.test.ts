import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startLocalStack } from "@concierge/dev";
import { describe, expect, it, vi } from "vitest";
import { type FunctionDefinition, type Topology, topology } from "../../infra/topology.ts";
import { disagreements, ofProgram, ofTopology, type View } from "./parity.ts";
import { ofLocalStack } from "./parity-local.ts";
import type { Mutation } from "./program.ts";
import { render } from "./render.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const wanted = ofTopology(topology);

/** Runs the local stack with every variable that a developer can set, and describes it. */
async function look(given: Topology): Promise<View> {
  const dataDir = await mkdtemp(join(tmpdir(), "concierge-parity-"));
  try {
    const definitions: FunctionDefinition[] = Object.values(given.functions);
    const names = definitions.flatMap(({ environment }) => environment);
    const set = names
      .filter((name) => /^CONCIERGE_(ALLOWED_ORIGINS|SINGLE_USER)$|^(?!VERCEL_|CONCIERGE_)/.test(name))
      .map((name) => [name, sample(name)]);
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...Object.fromEntries(set) };
    await using stack = await startLocalStack({ topology: given, dataDir, env });
    return await ofLocalStack(stack, given);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** A valid value. */
function sample(name: string): string {
  if (name.endsWith("_MS")) return "3600000";
  if (name.endsWith("_BYTES")) return "1048576";
  if (/_(URL|ENDPOINT|ORIGINS)$/.test(name)) return "http://127.0.0.1:9";
  if (name.startsWith("ENABLE_")) return "on";
  if (name === "CONCIERGE_SINGLE_USER") return "false";
  if (name.startsWith("POOL_WARM")) return "0";
  if (/^(POOL|USER)_|_DAYS$/.test(name)) return "5";
  return name === "SANDBOX_AGENTS" ? "claude" : "set";
}

describe("topology, program and local stack agree", () => {
  it.each(["dev", "production"])("the program for %s matches the topology", async (stage) => {
    expect(disagreements(ofProgram(await render(stage)), wanted)).toEqual([]);
  });

  it("the local stack matches the topology", async () => {
    expect(disagreements(await look(topology), wanted)).toEqual([]);
  });
});

describe("a program that differs is reported", () => {
  const cases: { what: string; mutation: Mutation; paths: string[] }[] = [
    {
      what: "an index's key",
      mutation: { file: "infra/topology.ts", from: 'range: "dueAt",', to: 'range: "ownedAt",' },
      paths: ["tables.Table.indexes.due.keys.1"],
    },
    {
      what: "what is in an index",
      mutation: {
        file: "infra/topology.ts",
        from: 'range: "dueAt", projection: ["userId"] }',
        to: 'range: "dueAt", projection: ["status", "turn"] }',
      },
      paths: ["tables.Table.indexes.due.projection"],
    },
    {
      what: "a delay",
      mutation: { file: "infra/queues.ts", from: "duration(definition.delayMs)", to: '"5 seconds"' },
      paths: [
        "queues.WorkQueue.delaySeconds",
        "queues.TimerQueue.delaySeconds",
        "queues.WebhookQueue.delaySeconds",
      ],
    },
    {
      what: "receives before the dead letters",
      mutation: { file: "infra/topology.ts", from: "maxReceives: 10", to: "maxReceives: 11" },
      paths: ["queues.TimerQueue.maxReceives"],
    },
    {
      what: "a batch's size",
      mutation: {
        file: "infra/topology.ts",
        from: 'queue: "TimerQueue", batchSize: 10',
        to: 'queue: "TimerQueue", batchSize: 5',
      },
      paths: ["functions.Timer.sources.0.batchSize"],
    },
    {
      what: "the schedule's rate",
      mutation: { file: "infra/schedule.ts", from: "everyMs / 60_000", to: "everyMs / 30_000" },
      paths: ["functions.Reaper.everyMs"],
    },
    {
      what: "a secret",
      mutation: { file: "infra/topology.ts", from: '["AdminApiKey", "SealingKey"]', to: '["AdminApiKey"]' },
      paths: ["functions.Api.resources.SealingKey"],
    },
    {
      what: "a variable",
      mutation: { file: "infra/topology.ts", from: '        "CONCIERGE_ADMIN_USER_ID",\n', to: "" },
      paths: ["functions.Api.variables"],
    },
    {
      what: "a timeout, and what follows from it",
      mutation: {
        file: "infra/topology.ts",
        from: "timerTimeoutMs = minute",
        to: "timerTimeoutMs = 2 * minute",
      },
      paths: ["queues.TimerQueue.visibilitySeconds", "functions.Timer.timeoutSeconds"],
    },
  ];

  it.each(cases)("$what", async ({ mutation, paths }) => {
    expect(disagreements(ofProgram(await render("dev", [mutation])), wanted)).toEqual(paths);
  });
});

it("a local stack that differs is reported", async () => {
  const { Table } = topology.table;
  const { WorkQueue } = topology.queues;
  const { Timer, Reaper } = topology.functions;
  const { owner, due } = Table.indexes;
  const indexes = {
    owner: { ...owner, range: due.range, projection: ["status", "turn"] },
    due: { ...due, range: owner.range, projection: [] },
  };
  const seen = await look({
    table: { Table: { ...Table, indexes } },
    queues: { ...topology.queues, WorkQueue: { ...WorkQueue, delayMs: 5000, maxReceives: 6 } },
    functions: {
      ...topology.functions,
      Timer: { ...Timer, timeoutMs: 5000, sources: [{ ...Timer.sources[0], batchSize: 5 }] },
      Reaper: {
        ...Reaper,
        scheduleEveryMs: 120_000,
        secrets: [...Reaper.secrets, "AdminApiKey"],
        environment: [...Reaper.environment, "OPENAI_API_KEY"],
      },
    },
  });
  expect(disagreements(seen, wanted)).toEqual([
    "tables.Table.indexes.owner.keys.1",
    "tables.Table.indexes.owner.projection",
    "tables.Table.indexes.due.keys.1",
    "tables.Table.indexes.due.projection",
    "queues.WorkQueue.delaySeconds",
    "queues.WorkQueue.maxReceives",
    "functions.Timer.timeoutSeconds",
    "functions.Timer.sources.0.batchSize",
    "functions.Reaper.variables",
    "functions.Reaper.resources.AdminApiKey",
    "functions.Reaper.everyMs",
  ]);
});
