import { describe, expect, test } from "vitest";
import { type FunctionDefinition, type Topology, topology } from "../../infra/topology.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

type FunctionName = keyof typeof topology.functions;

/** One and a half seconds of a longer turn, then its deadline, which the timer enforces. */
async function path({ client }: Concierge): Promise<string> {
  const { id } = await client.start("sleep 60", { limits: { maxDurationMs: 1500 } });
  return (await client.ended(id, 20_000)).status;
}

function without(name: FunctionName, on: string, action: string): Topology {
  const definition: FunctionDefinition = topology.functions[name];
  const grants = definition.grants.map((grant) =>
    grant.on === on ? { on, actions: grant.actions.filter((other) => other !== action) } : grant,
  );
  const granted = (list: FunctionDefinition["grants"]) => list.flatMap(({ actions }) => actions).length;
  if (granted(grants) === granted(definition.grants)) throw new Error(`${name} has no ${action} on ${on}`);
  return { ...topology, functions: { ...topology.functions, [name]: { ...definition, grants } } };
}

/** The log line that says so. */
function refusal(name: FunctionName, action: string): RegExp {
  return new RegExp(
    `refused: User: \\S+:assumed-role/concierge-dev-${name} is not authorized to perform: ${action} `,
  );
}

async function refused({ log }: Concierge, line: RegExp): Promise<void> {
  await expect.poll(() => log.some((one) => line.test(one)), { timeout: 20_000 }).toBe(true);
}

describe("with the topology's grants", () => {
  test("a turn runs to its deadline, and no call is refused", async () => {
    await using concierge = await startConcierge({ reapEveryMs: 500 });
    expect(await path(concierge)).toBe("timed_out");
    expect(concierge.log.filter((line) => line.includes("refused: "))).toEqual([]);
  });
});

describe("without one action", () => {
  test.each([
    ["dynamodb:GetItem", "Table"],
    ["dynamodb:PutItem", "Table"],
    ["dynamodb:UpdateItem", "Table"],
  ])("Api's %s: a start answers 500", async (action, on) => {
    await using concierge = await startConcierge(
      { topology: without("Api", on, action), reapEveryMs: 3_600_000 },
      { mayBeRefused: true },
    );
    await expect(path(concierge)).rejects.toThrow(/answered 500/);
    await refused(concierge, refusal("Api", action));
  });

  test.each([
    ["Worker", "dynamodb:UpdateItem", "Table"],
    ["Worker", "sqs:ReceiveMessage", "WorkQueue"],
    ["Worker", "sqs:GetQueueAttributes", "WorkQueue"],
  ] as const)("%s's %s: no turn ever runs", async (name, action, on) => {
    await using concierge = await startConcierge(
      { topology: without(name, on, action), reapEveryMs: 3_600_000 },
      { mayBeRefused: true },
    );
    const { id } = await concierge.client.start("true");
    await refused(concierge, refusal(name, action));
    expect((await concierge.client.get(id)).status).toBe("queued");
  });

  test.each([
    ["Timer", "sqs:ReceiveMessage", "TimerQueue"],
    ["Timer", "dynamodb:UpdateItem", "Table"],
  ] as const)("%s's %s: a deadline is not enforced", async (name, action, on) => {
    await using concierge = await startConcierge(
      { topology: without(name, on, action), reapEveryMs: 3_600_000 },
      { mayBeRefused: true },
    );
    const { id } = await concierge.client.start("sleep 60", { limits: { maxDurationMs: 1500 } });
    await refused(concierge, refusal(name, action));
    expect((await concierge.client.get(id)).status).not.toBe("timed_out");
  });

  test("Reaper's dynamodb:Query on an index: every pass fails in part", async () => {
    await using concierge = await startConcierge(
      { topology: without("Reaper", "Table/index/due", "dynamodb:Query"), reapEveryMs: 500 },
      { mayBeRefused: true },
    );
    await refused(concierge, refusal("Reaper", "dynamodb:Query"));
    await expect.poll(() => failsInPart(concierge), { timeout: 20_000 }).toBe(true);
  });
});

/** Every pass reports what failed. */
function failsInPart({ log }: Concierge): boolean {
  const passes = log.filter((line) => line.includes('"message":"reaper pass finished"'));
  return passes.length > 0 && passes.every((line) => /"failures":\["/.test(line));
}
