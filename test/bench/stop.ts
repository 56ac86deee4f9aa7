import { DynamoDBClient, GetItemCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { clientConfig } from "@concierge/dev";
import { type Concierge, startConcierge } from "../testing/stack.ts";
import { type BareCommand, createBareSandbox, firstOutput, launchBare } from "./bare.ts";
import { type Benchmark, type Figure, interleaved, percentile, timed } from "./harness.ts";
import { firstOutputOf } from "./turn.ts";

/** Concurrent tasks; each round stops them one by one and continues them. */
const sessions = 4;
const rounds = 15;
const warmUpRounds = 2;
const distantRounds = 5;
/** The latency of a remote provider's call. */
const distancesMs = [10, 25];
const script = "echo started\nsleep 600\n";

type Samples = Awaited<ReturnType<typeof measure>>;

export const stop: Benchmark = {
  name: "stop",
  about: `${sessions * rounds} stops, from the request to the proven death, against the bare SDK's kill and wait`,
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000 });
    const sandboxes = await Promise.all(Array.from({ length: sessions }, () => createBareSandbox(concierge)));
    const tasks = await Promise.all(sandboxes.map(() => concierge.client.start("true")));
    await Promise.all(tasks.map(({ id }) => concierge.client.ended(id)));
    const ids = tasks.map(({ id }) => id);

    await measure(concierge, ids, sandboxes, warmUpRounds);
    const near = await measure(concierge, ids, sandboxes, rounds);
    const distant = new Map<number, Samples>();
    for (const delayMs of distancesMs) {
      for (const route of ["runCommand", "killCommand", "getCommand"]) {
        const effect = { type: "delay", delayMs };
        await concierge.control("POST", "/faults", { route, count: 1_000_000, effect });
      }
      distant.set(delayMs, await measure(concierge, ids, sandboxes, distantRounds));
      await concierge.control("DELETE", "/faults");
    }
    return figuresOf(near, distant);
  },
};

function figuresOf(near: Samples, distant: ReadonlyMap<number, Samples>): Figure[] {
  const against = (
    what: string,
    percent: number,
    samples: Samples,
    baseline: [string, readonly number[]],
  ): Figure => ({
    what: `request to proven death${what}, p${percent}`,
    unit: "ms",
    value: percentile(samples.stop, percent),
    baseline: { what: baseline[0], value: percentile(baseline[1], percent) },
  });
  const likeRunner = (samples: Samples): [string, number[]] => [
    "kill() + wait(), Node around bash",
    samples.killNode,
  ];
  return [
    { ...against("", 50, near, likeRunner(near)), target: { of: "ratio", atMost: 2 } },
    { ...against("", 99, near, likeRunner(near)), target: { of: "value", atMost: 1000 } },
    against("", 50, near, ["kill() + wait(), bash alone", near.killBash]),
    against("", 50, near, ["kill() + wait() + one look at /proc", near.killAndLook]),
    against("", 50, near, ["a read, kill() + wait() between two writes", near.killAndWrite]),
    {
      what: "the least that is written down, p50",
      unit: "ms",
      value: percentile(near.killAndWrite, 50),
      baseline: { what: "kill() + wait(), Node around bash", value: percentile(near.killNode, 50) },
    },
    ...[...distant].map(
      ([ms, samples]): Figure => ({
        ...against(`, provider ${ms} ms away`, 50, samples, likeRunner(samples)),
        target: { of: "ratio", atMost: 2 },
      }),
    ),
    { what: "of it, between its two writes, p50", unit: "ms", value: percentile(near.proving, 50) },
  ];
}

async function measure(
  { client, endpoints, credentials, tableName }: Concierge,
  ids: readonly string[],
  sandboxes: readonly Awaited<ReturnType<typeof createBareSandbox>>[],
  count: number,
) {
  const samples = {
    stop: [] as number[],
    proving: [] as number[],
    killNode: [] as number[],
    killBash: [] as number[],
    killAndLook: [] as number[],
    killAndWrite: [] as number[],
  };
  const table = new DynamoDBClient(clientConfig(endpoints.dynamodb, credentials));
  for (let round = 0; round < count; round++) {
    const tasks = await Promise.all(ids.map((id) => client.continue(id, script)));
    await Promise.all(tasks.map((task) => firstOutputOf(client, task)));
    const killNode = await launchAll("node");
    const killBash = await launchAll("bash");
    const killAndLook = await launchAll("node");
    const killAndWrite = await launchAll("node");

    await interleaved(sessions, [
      async (at) => {
        const began = performance.now();
        const { httpStatus, timings } = await client.stop(ids[at] ?? "");
        samples.stop.push(performance.now() - began);
        if (httpStatus !== 200) throw new Error("a stop was answered before it was proven");
        samples.proving.push(timings.stopMs ?? Number.NaN);
      },
      async (at) => void samples.killNode.push(await timed(() => kill(killNode[at]))),
      async (at) => void samples.killBash.push(await timed(() => kill(killBash[at]))),
      async (at) => {
        const ms = await timed(async () => {
          await kill(killAndLook[at]);
          await sandboxes[at]?.runCommand({ cmd: "ls", args: ["/proc"], sudo: true });
        });
        samples.killAndLook.push(ms);
      },
      async (at) => {
        const item = { TableName: tableName, Key: { pk: { S: `BENCH#${at}` }, sk: { S: "BENCH" } } };
        const write = async (status: string) => {
          const change = {
            UpdateExpression: "SET #status = :status",
            ConditionExpression: "#status <> :status",
            ExpressionAttributeNames: { "#status": "status" },
            ExpressionAttributeValues: { ":status": { S: status } },
          };
          await table.send(new UpdateItemCommand({ ...item, ...change, ReturnValues: "ALL_NEW" }));
        };
        const ms = await timed(async () => {
          await table.send(new GetItemCommand({ ...item, ConsistentRead: true }));
          await write("stopping");
          await kill(killAndWrite[at]);
          await write("stopped");
        });
        samples.killAndWrite.push(ms);
      },
    ]);
  }
  table.destroy();
  return samples;

  async function launchAll(program: "node" | "bash"): Promise<BareCommand[]> {
    const commands = await Promise.all(sandboxes.map((session) => launchBare(session, script, program)));
    await Promise.all(commands.map(firstOutput));
    return commands;
  }
}

async function kill(command: BareCommand | undefined): Promise<void> {
  await command?.kill();
  await command?.wait();
}
